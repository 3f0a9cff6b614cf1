package remoting

// scanExt takes the object extFields (or null) and packs it over its own text:
// each key and value stays where it is or moves towards the front, the lengths take
// the place of punctuation. Only an object with values that are no strings, which
// no known client sends, is copied instead.
//
//	{"topic":"T","queueId":"3"}        27 bytes of JSON
//	..topic...T..queueId...3           24 bytes packed, lengths where the dots are
func (s *scanner) scanExt() (Fields, error) {
	switch s.peek() {
	case 'n':
		_, err := s.skip()
		return Fields{}, err
	case '{':
	default:
		return Fields{}, s.fail("extFields is no object")
	}
	start, w := s.i, s.i
	s.i++
	if s.take('}') {
		return Fields{}, nil
	}
	for {
		var more bool
		if w, more = s.packPlain(w); !more {
			return Fields{raw: s.b[start:w:w]}, nil
		}
		key, err := s.extKey()
		if err != nil {
			return Fields{}, err
		}
		if s.peek() != '"' {
			return s.copyExt(append([]byte(nil), s.b[start:w]...), key)
		}
		value, err := s.str()
		if err != nil {
			return Fields{}, err
		}
		// w+2 <= where key lies and w+2+len(key)+3 <= where value lies: what is
		// written has been read.
		w = packField(s.b, w, key, value)
		if more, err = s.afterExtField(); err != nil {
			return Fields{}, err
		}
		if !more {
			return Fields{raw: s.b[start:w:w]}, nil
		}
	}
}

// packPlain takes fields as long as they are of the form "key":"value", without
// blanks or escapes and with a short key, and packs them from w on. more is false if
// it came to the object's end; else the next field needs more care. It is one loop
// without calls because every message of every JSON client passes here.
func (s *scanner) packPlain(w int) (end int, more bool) {
	const shortKey = 64
	b, i := s.b, s.i
	for i+1 < len(b) && b[i] == '"' {
		key := i + 1
		k := key
		for k < len(b) && b[k] != '"' && b[k] != '\\' && k-key < shortKey {
			k++
		}
		value := k + 3
		if value > len(b) || b[k] != '"' || b[k+1] != ':' || b[k+2] != '"' {
			break
		}
		v := special(b, value)
		if v+1 >= len(b) || b[v] != '"' || b[v+1] != ',' && b[v+1] != '}' {
			break
		}
		n := k - key
		if w+packedKeyLen == key { // nothing before has shrunk: key and value lie where they belong
			b[w], b[w+1] = 0, byte(n)
			n = v - value
			b[k], b[k+1], b[k+2] = byte(n>>16), byte(n>>8), byte(n)
			w = v
		} else {
			w = packField(b, w, b[key:k], b[value:v])
		}
		i = v + 2
		if b[v+1] == '}' {
			s.i = i
			return w, false
		}
	}
	s.i = i
	return w, true
}

// extKey takes a key and its colon.
func (s *scanner) extKey() ([]byte, error) {
	key, err := s.str()
	if err != nil {
		return nil, err
	}
	if len(key) > maxKey {
		return nil, s.fail("key of an ext field too long")
	}
	if !s.take(':') {
		return nil, s.fail("no colon after a key of extFields")
	}
	return key, nil
}

// maxKey is what the packed layout can say of a key's length.
const maxKey = 1<<16 - 1

// afterExtField takes what stands after a value: a comma (true) or the end.
func (s *scanner) afterExtField() (more bool, err error) {
	if s.take(',') {
		return true, nil
	}
	if s.take('}') {
		return false, nil
	}
	return false, s.fail("no comma between ext fields")
}

// packField writes one field at b[w] and returns the place after it.
func packField(b []byte, w int, key, value []byte) int {
	k, v := len(key), len(value)
	b[w], b[w+1] = byte(k>>8), byte(k)
	w += packedKeyLen
	w += copy(b[w:], key)
	b[w], b[w+1], b[w+2] = byte(v>>16), byte(v>>8), byte(v)
	w += packedValueLen
	return w + copy(b[w:], value)
}

// copyExt goes on after a key whose value is no string, packing into out. null
// leaves the field out; everything else gives its text.
func (s *scanner) copyExt(out, key []byte) (Fields, error) {
	for {
		null := s.peek() == 'n'
		value, err := s.skip()
		if err != nil {
			return Fields{}, err
		}
		if !null {
			at := len(out)
			out = append(out, make([]byte, packedKeyLen+len(key)+packedValueLen+len(value))...)
			packField(out, at, key, value)
		}
		more, err := s.afterExtField()
		if err != nil || !more {
			return Fields{raw: out}, err
		}
		if key, err = s.extKey(); err != nil {
			return Fields{}, err
		}
	}
}
