package fastjson

import (
	"encoding/json"
	"maps"
	"slices"
)

// Unknown is the members of an object but the known ones, in the order of their names,
// as they are written behind those: each led in by a comma and line. What they hold
// stays as it was written, but that Clean made legal JSON of it. So members that a newer
// or an extended RocketMQ has written survive a reader that does not know them.
func Unknown(text []byte, line string, known ...string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := Unmarshal(text, &members); err != nil {
		return nil, err
	}
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(known, name) {
			continue
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out = append(append(out, ','), line...)
		out = append(append(out, quoted...), ':')
		out = append(out, members[name]...)
	}
	return out, nil
}
