package nameserver

import (
	"errors"
	"fmt"
	"time"
)

// errIgnored is the verdict on a slave of an older epoch: RouteInfoManager answers
// it with success and takes nothing in.
var errIgnored = errors.New("older than the holder of its id")

// contest decides between a live registration of an id and a newcomer that claims
// the id from another address. nil: the newcomer gets it.
//
//	id 0   holder silent for longer than its heartbeat time     newcomer
//	       newcomer's stateVersion higher                       newcomer
//	       both 0 and neither knows acting masters (Apache's)   newcomer
//	       the same, or lower                                   holder; refused with the reason
//	others newcomer's stateVersion lower                        holder; ignored
//	       else                                                 newcomer
//
// RouteInfoManager lets the last one win everywhere but for a lower stateVersion,
// so two masters of one name take turns there.
func contest(rival *lease, holder string, group *group, g Registration, now time.Time) error {
	theirs, ours := rival.version.StateVersion, g.Version.StateVersion
	if g.ID != masterID {
		if theirs > ours {
			return errIgnored
		}
		return nil
	}
	plain := theirs == 0 && ours == 0 && !group.acting && !g.Acting
	switch {
	case !rival.alive(now), ours > theirs, plain:
		return nil
	case ours < theirs:
		return fmt.Errorf("broker %s: %s became its master later (stateVersion %d, yours is %d): be its slave, with an id above 0",
			g.Name, holder, theirs, ours)
	default:
		return fmt.Errorf("broker %s: %s is its master and alive (stateVersion %d like yours): two masters of one name split the queues; give this one another name, or an id above 0",
			g.Name, holder, theirs)
	}
}
