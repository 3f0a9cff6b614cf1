package broker

import (
	"context"
	"time"
)

// Periods of the housekeeping loop, as RocketMQ's.
const (
	expireEvery = 10 * time.Second
	sampleEvery = 10 * time.Second
)

// keepHouse persists consumer progress, expires silent clients, samples the
// statistics and rolls them over at local midnight, until ctx ends.
func (b *Broker) keepHouse(ctx context.Context) error {
	offsets := time.NewTicker(b.opts.OffsetsEvery)
	defer offsets.Stop()
	expire := time.NewTicker(expireEvery)
	defer expire.Stop()
	sample := time.NewTicker(sampleEvery)
	defer sample.Stop()
	midnight := time.NewTimer(untilMidnight(b.opts.Now()))
	defer midnight.Stop()
	for {
		select {
		case <-offsets.C:
			b.persistOffsets()
			b.flushTopics()
		case <-expire.C:
			for _, m := range b.members.Expire(b.opts.ClientExpiry) {
				b.locks.Release(m.Group, m.ClientID)
			}
			b.offsets.Sweep(func(group string) bool { return b.members.Group(group) != nil })
		case <-sample.C:
			b.stats.Sample()
		case <-midnight.C:
			b.stats.Roll()
			midnight.Reset(untilMidnight(b.opts.Now()))
		case <-ctx.Done():
			return nil
		}
	}
}

// persistOffsets saves consumer progress. A failure costs redelivery after a
// crash, nothing else, so it is said and tried again.
func (b *Broker) persistOffsets() {
	if err := b.offsets.Persist(); err != nil {
		b.log.Error("consumer progress could not be saved; it is tried again", "err", err, "after", b.opts.OffsetsEvery)
	}
}

// flushTopics brings topics.json up to date with its journal. Nothing is lost if that
// fails.
func (b *Broker) flushTopics() {
	if err := b.topics.Flush(); err != nil {
		b.log.Error("topics.json could not be written, its journal has what is missing; it is tried again", "err", err, "after", b.opts.OffsetsEvery)
	}
}

func untilMidnight(now time.Time) time.Duration {
	y, m, d := now.Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, now.Location()).Sub(now)
}
