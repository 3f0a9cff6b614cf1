package commitlog

// tail is a place for a copy of the newest bytes.
type tail struct{}

func newTail() *tail { return &tail{} }

func (t *tail) append(pos int64, p []byte)      {}
func (t *tail) read(dst []byte, pos int64) bool { return false }
