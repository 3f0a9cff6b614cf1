package inspect_test

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"mqctl/store/table"
	"mqctl/store/vfs"
)

// sealed is the text of a file with a checksum.
func sealed(lines ...string) string {
	text := strings.Join(lines, "\n") + "\n"
	return fmt.Sprintf("%scrc %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// The list of holes is checked to its last line, and other files for their version.
func TestVerifySideFiles(t *testing.T) {
	_, rep := verify(t, unpack(t, "clean"))
	end := rep.LogEnd
	const bad = "REPAIR SIDE_FILE_DAMAGED mqctl/holes at 0, 0 bytes"
	for name, tt := range map[string]struct {
		file, text string
		want       []string
	}{
		"good":         {"holes", sealed("mqctl-holes 1", "damaged 100 200 5", "kept 200 300 5"), nil},
		"no checksum":  {"holes", "mqctl-holes 1\ndamaged 100 200 5\n", []string{bad}},
		"flipped":      {"holes", strings.Replace(sealed("mqctl-holes 1", "damaged 100 200 5"), "100", "101", 1), []string{bad}},
		"empty":        {"holes", "", []string{bad}},
		"version":      {"holes", sealed("mqctl-holes 2", "damaged 100 200 5"), []string{bad}},
		"kind":         {"holes", sealed("mqctl-holes 1", "burnt 100 200 5"), []string{bad}},
		"numbers":      {"holes", sealed("mqctl-holes 1", "damaged 100 200"), []string{bad}},
		"no number":    {"holes", sealed("mqctl-holes 1", "damaged 100 2x0 5"), []string{bad}},
		"negative":     {"holes", sealed("mqctl-holes 1", "damaged -100 200 5"), []string{bad}},
		"backwards":    {"holes", sealed("mqctl-holes 1", "damaged 200 100 5"), []string{bad}},
		"overlapping":  {"holes", sealed("mqctl-holes 1", "damaged 100 200 5", "damaged 199 300 5"), []string{bad}},
		"to the end":   {"holes", sealed("mqctl-holes 1", fmt.Sprintf("damaged 100 %d 5", end)), nil},
		"over the end": {"holes", sealed("mqctl-holes 1", fmt.Sprintf("damaged 100 %d 5", end+1)), []string{fmt.Sprintf("REPAIR SIDE_FILE_DAMAGED mqctl/holes at 0, %d bytes", end-99)}},
		"other":        {"progress", sealed("mqctl-progress 9", "pid 1"), []string{"REPAIR SIDE_FILE_DAMAGED mqctl/progress at 0, 0 bytes"}},
		"an import":    {"imported", sealed("mqctl-import 7", "x 1"), []string{"REPAIR SIDE_FILE_DAMAGED mqctl/imported at 0, 0 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := unpack(t, "clean")
			put(t, fsys, "/store/mqctl", tt.file, tt.text)
			if got, _ := verify(t, fsys); !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func put(t *testing.T, fsys vfs.FS, dir, name, text string) {
	t.Helper()
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fsys, dir+"/"+name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// A journal of the topics is checked line by line, as a start reads it.
func TestVerifyJournal(t *testing.T) {
	fsys := unpack(t, "clean")
	doc, err := vfs.ReadFile(fsys, "/store/config/topics.json", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	doc = append(doc, strings.Repeat("\n", 200<<10)...) // so large that a journal is kept
	f := table.NewFile(fsys, "/store/config", "topics.json")
	if err := f.Save(doc); err != nil {
		t.Fatal(err)
	}
	const line = `{"dataVersion":{"counter":9},"topicConfigTable":{}}`
	for range 3 {
		if done, err := f.Append([]byte(line)); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	b, err := vfs.ReadFile(fsys, "/store/config/topics.json.journal", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	head := strings.Index(good, "\n") + 1
	one := len(line) + 10
	finding := func(sev string, at, bytes int) []string {
		return []string{fmt.Sprintf("%s SIDE_FILE_DAMAGED config/topics.json.journal at %d, %d bytes", sev, at, bytes)}
	}
	change := func(at int, to string) string { return good[:at] + to + good[at+len(to):] }
	none := "not JSON"
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"good":         {good, nil},
		"empty":        {"", finding("NOTE", 0, 0)},
		"torn":         {good[:len(good)-5], finding("REPAIR", head+2*one, one-5)},
		"torn head":    {good[:10], finding("REPAIR", 0, 10)},
		"bad head":     {change(2, "X"), finding("DAMAGE", 0, len(good))},
		"other table":  {change(len("mqctl-journal 1 "), "00000000"), finding("NOTE", 0, len(good))},
		"version":      {change(len("mqctl-journal "), "2"), finding("DAMAGE", 0, len(good))},
		"flipped":      {change(head+one+20, "X"), finding("DAMAGE", head+one, 2*one)},
		"flipped last": {change(head+2*one+20, "X"), finding("REPAIR", head+2*one, one)},
		"no JSON":      {good[:head] + fmt.Sprintf("%08x %s\n", crc32.ChecksumIEEE([]byte(none)), none), finding("DAMAGE", head, len(none)+10)},
		"zeros":        {good[:head] + strings.Repeat("\x00", 600), finding("REPAIR", head, 600)},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, fsys, "/store/config", "topics.json.journal", tt.text)
			if got, _ := verify(t, fsys); !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
