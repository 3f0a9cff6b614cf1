package store

// What crash tests drive by hand instead of Run.

func (s *Store) KeepOnce()          { s.keepOnce() }
func (s *Store) Mark() error        { return s.mark(false) }
func (s *Store) FlushOnce()         { s.flushOnce() }
func (s *Store) PrepareNext() error { return s.log.Prepare() }
func (s *Store) CheckDisk()         { s.checkDisk() }
