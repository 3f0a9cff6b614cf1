package subgroup

import "maps"

// A deleted topic leaves a floor: a generation above all that its progress had. What
// is below it is of the topic before, whoever tells it and however late, also of a
// group that nobody here knew when the topic was deleted; so it cannot lead consumers
// of a topic that was made again past its first messages. Progress that begins anew
// begins at the floor.
//
// A floor travels and is kept as the marker of a deletion of the group with the empty
// name, which no group has. A broker of this program from before there were floors refuses
// such a table as a whole; none was released. An Apache broker gets no markers at all.
// Like every marker it goes after 7 days.

// floorGroup is the group of floors.
const floorGroup = ""

// floor is the floor of a topic, the zero value if there is none.
func (o *Offsets) floor(topic string) Progress {
	if m := o.floors.Load(); m != nil {
		return (*m)[topic]
	}
	return Progress{}
}

// floorGen is the generation in which progress on a topic begins.
func (o *Offsets) floorGen(topic string) uint32 {
	if o.floors.Load() == nil {
		return 0
	}
	return o.floor(topic).Gen
}

// nextGen is the generation of a move on purpose, of progress in generation gen. A
// number whose generation an Apache broker lost may lie below the floor.
func (o *Offsets) nextGen(topic string, gen uint32) uint32 { return max(gen, o.floorGen(topic)) + 1 }

// setFloor notes a topic's floor, or forgets it if it is none.
func (o *Offsets) setFloor(topic string, f Progress) {
	o.floorsMu.Lock()
	defer o.floorsMu.Unlock()
	next := map[string]Progress{}
	if m := o.floors.Load(); m != nil {
		maps.Copy(next, *m)
	}
	next[topic] = f
	if !f.Deleted {
		delete(next, topic)
	}
	o.floors.Store(&next)
}

// raised is what a record means above its topic's floor.
func raised(p, floor Progress) Progress {
	if floor.Deleted && !p.Unknown && (p.Gen < floor.Gen || p.Deleted && floor.Beats(p)) {
		return floor
	}
	return p
}

// raiseFloor makes f the floor of a topic, if it is above the one that is known, and
// lifts what lies below. It reports whether that is news.
func (o *Offsets) raiseFloor(topic string, f Progress) bool {
	s := o.shardOf(rowKey{topic, floorGroup})
	s.mu.Lock()
	r := s.row([]byte(topic), []byte(floorGroup))
	at := r.find(0)
	if at != nil && !f.Beats(at.progress()) {
		s.mu.Unlock()
		return false
	}
	if at == nil {
		at = r.add(0)
	}
	o.setFloor(topic, f)
	o.set(s, r, at, f)
	s.mu.Unlock()
	// A row that is made meanwhile sees the floor.
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		for k, r := range s.rows {
			if k.topic != topic || k.group == floorGroup {
				continue
			}
			for j := range r.cells {
				c := &r.cells[j]
				if p := c.progress(); !p.Unknown {
					if next := raised(p, f); next != p {
						c.client = 0
						o.set(s, r, c, next)
					}
				}
			}
		}
		s.mu.Unlock()
	}
	return true
}

// topGen is the highest generation of a topic's progress.
func (o *Offsets) topGen(topic string) (gen uint32) {
	o.each(func(r *row) {
		if r.key.topic == topic {
			for i := range r.cells {
				gen = max(gen, r.cells[i].gen)
			}
		}
	})
	return gen
}
