package record

import "unicode/utf8"

// JavaHash is Java's String.hashCode over the UTF-16 units of UTF-8 text.
// Malformed bytes count as Java decodes them: as U+FFFD.
func JavaHash[T ~string | ~[]byte](s T) int32 { return ExtendHash(0, s) }

// ExtendHash continues a hash with more text: ExtendHash(JavaHash(a), b) is
// the hash of a+b. Neither part may end inside of a character.
func ExtendHash[T ~string | ~[]byte](h int32, s T) int32 {
	i := 0
	// Four at a time, since the multiplications of one step do not depend on
	// each other; almost all topics, keys and tags are ASCII.
	for ; i+4 <= len(s); i += 4 {
		a, b, c, d := s[i], s[i+1], s[i+2], s[i+3]
		if a|b|c|d >= utf8.RuneSelf {
			return extendUTF8(h, s, i)
		}
		h = h*(31*31*31*31) + int32(a)*(31*31*31) + int32(b)*(31*31) + int32(c)*31 + int32(d)
	}
	for ; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return extendUTF8(h, s, i)
		}
		h = h*31 + int32(s[i])
	}
	return h
}

func extendUTF8[T ~string | ~[]byte](h int32, s T, i int) int32 {
	for i < len(s) {
		if s[i] < utf8.RuneSelf {
			h = h*31 + int32(s[i])
			i++
			continue
		}
		r, n := decodeJava(s, i)
		i += n
		if r >= 0x10000 {
			r -= 0x10000
			h = h*31 + 0xD800 + r>>10
			r = 0xDC00 + r&0x3FF
		}
		h = h*31 + r
	}
	return h
}

func continues[T ~string | ~[]byte](s T, i int) bool { return i < len(s) && s[i]&0xC0 == 0x80 }

// decodeJava reads the character at s[i] >= 0x80 as java.lang.String does: a
// malformed sequence becomes one U+FFFD for the longest part of it that could
// have begun a character, and an encoded surrogate is one malformed character.
func decodeJava[T ~string | ~[]byte](s T, i int) (r int32, n int) {
	const bad = 0xFFFD
	b := s[i]
	switch {
	case b >= 0xC2 && b <= 0xDF:
		if !continues(s, i+1) {
			return bad, 1
		}
		return int32(b&0x1F)<<6 | int32(s[i+1]&0x3F), 2
	case b&0xF0 == 0xE0:
		if !continues(s, i+1) || b == 0xE0 && s[i+1] < 0xA0 {
			return bad, 1
		}
		if !continues(s, i+2) {
			return bad, 2
		}
		r = int32(b&0x0F)<<12 | int32(s[i+1]&0x3F)<<6 | int32(s[i+2]&0x3F)
		if r >= 0xD800 && r <= 0xDFFF {
			r = bad
		}
		return r, 3
	case b >= 0xF0 && b <= 0xF4:
		if !continues(s, i+1) || b == 0xF0 && s[i+1] < 0x90 || b == 0xF4 && s[i+1] > 0x8F {
			return bad, 1
		}
		if !continues(s, i+2) {
			return bad, 2
		}
		if !continues(s, i+3) {
			return bad, 3
		}
		return int32(b&7)<<18 | int32(s[i+1]&0x3F)<<12 | int32(s[i+2]&0x3F)<<6 | int32(s[i+3]&0x3F), 4
	}
	return bad, 1
}

// TagsCode is JavaHash(tags) sign-extended, 0 without tags.
func TagsCode(tags []byte) int64 {
	if len(tags) == 0 {
		return 0
	}
	return int64(JavaHash(tags))
}
