package header

import (
	"bytes"
	"fmt"
	"math"

	"mqctl/broker/remoting"
)

// FieldError says which ext field of a request or an answer cannot be used.
type FieldError struct {
	Header string // as the type is called here
	Field  string // the wire's name
	Value  string // shortened; empty if the field is missing
	Why    string
}

func (e *FieldError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("field %s of %s %s", e.Field, e.Header, e.Why)
	}
	return fmt.Sprintf("field %s of %s: %q %s", e.Field, e.Header, e.Value, e.Why)
}

const (
	whyMissing = "is missing"
	whyNumber  = "is no number"
	whyRange   = "is out of range"
)

// need says whether a field must be there.
type need int

const (
	optional need = iota // may be missing; written if not empty
	written              // may be missing; always written
	required             // must be there
)

// walker is a header that names its fields once, for reading and for writing.
type walker interface{ walk(c *codec) }

// codec reads the fields that a walker names from f or m, or writes them to w. The
// first error stands.
type codec struct {
	header string
	f      remoting.Fields
	m      map[string]string
	w      *remoting.ExtWriter // nil: reading
	err    error
}

// decode reads a request's header.
func decode(name string, f remoting.Fields, h walker) error {
	c := codec{header: name, f: f}
	h.walk(&c)
	return c.err
}

// decodeMap reads an answer's header.
func decodeMap(name string, m map[string]string, h walker) error {
	if m == nil {
		m = map[string]string{}
	}
	c := codec{header: name, m: m}
	h.walk(&c)
	return c.err
}

// encode writes a header.
func encode(w *remoting.ExtWriter, h walker) { h.walk(&codec{w: w}) }

// lookup finds a field; an empty value is there for texts only.
func (c *codec) lookup(key string) (value []byte, ok bool) {
	if c.m != nil {
		s, ok := c.m[key]
		return []byte(s), ok
	}
	b := c.f.Bytes(key)
	return b, b != nil
}

func (c *codec) fail(key string, value []byte, why string) {
	if c.err == nil {
		c.err = fieldError(c.header, key, value, why)
	}
}

func fieldError(header, key string, value []byte, why string) *FieldError {
	const most = 64
	return &FieldError{Header: header, Field: key, Value: string(value[:min(len(value), most)]), Why: why}
}

// text is a string.
func (c *codec) text(key string, v *string, n need) {
	if c.w != nil {
		if n != optional || *v != "" {
			c.w.String(key, *v)
		}
		return
	}
	b, ok := c.lookup(key)
	if !ok && n == required {
		c.fail(key, nil, whyMissing)
	}
	*v = string(b)
}

// long is a number of 64 bits.
func (c *codec) long(key string, v *int64, n need) {
	if c.w != nil {
		if n != optional || *v != 0 {
			c.w.Int(key, *v)
		}
		return
	}
	c.number(key, v, n, math.MinInt64, math.MaxInt64)
}

// word is a number of 32 bits.
func (c *codec) word(key string, v *int32, n need) {
	long := int64(*v)
	if c.w != nil {
		c.long(key, &long, n)
		return
	}
	c.number(key, &long, n, math.MinInt32, math.MaxInt32)
	*v = int32(long)
}

// number reads a number; true if it was there.
func (c *codec) number(key string, v *int64, n need, low, high int64) bool {
	*v = 0
	b, _ := c.lookup(key)
	if len(b) == 0 {
		if n == required {
			c.fail(key, nil, whyMissing)
		}
		return false
	}
	x, ok := remoting.ParseInt(b)
	switch {
	case !ok:
		c.fail(key, b, whyNumber)
	case x < low || x > high:
		c.fail(key, b, whyRange)
	default:
		*v = x
		return true
	}
	return false
}

// maybeLong is an optional number whose absence means something.
func (c *codec) maybeLong(key string, v *int64, has *bool) {
	if c.w != nil {
		if *has {
			c.w.Int(key, *v)
		}
		return
	}
	*has = c.number(key, v, optional, math.MinInt64, math.MaxInt64)
}

// maybeWord is maybeLong for 32 bits.
func (c *codec) maybeWord(key string, v *int32, has *bool) {
	if c.w != nil {
		if *has {
			c.w.Int(key, int64(*v))
		}
		return
	}
	var long int64
	*has = c.number(key, &long, optional, math.MinInt32, math.MaxInt32)
	*v = int32(long)
}

// flag is a boolean.
func (c *codec) flag(key string, v *bool, n need) {
	if c.w != nil {
		if n != optional || *v {
			c.w.Bool(key, *v)
		}
		return
	}
	b, ok := c.lookup(key)
	if !ok && n == required {
		c.fail(key, nil, whyMissing)
	}
	*v = isTrue(b)
}

// maybeFlag is an optional boolean whose absence means something.
func (c *codec) maybeFlag(key string, v, has *bool) {
	if c.w != nil {
		if *has {
			c.w.Bool(key, *v)
		}
		return
	}
	b, ok := c.lookup(key)
	*v, *has = isTrue(b), ok && len(b) > 0
}

// isTrue is Java's Boolean.parseBoolean.
func isTrue(b []byte) bool {
	return len(b) == 4 && (string(b) == "true" || bytes.EqualFold(b, []byte("true")))
}
