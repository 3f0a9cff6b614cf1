package cli

import (
	"fmt"
	"testing"
)

// TestWaitRoleAfterAChange: a change of roles swaps the ids, and the same line must be right
// after a change there and after one back by the same id, whoever was configured with it.
// Long after it an id is only whose it is now: that one is waited for.
func TestWaitRoleAfterAChange(t *testing.T) {
	for _, tt := range []struct {
		ago  int64 // of the change, in ms; 0: the master was started since
		exit int   // of waiting for who left the id that is asked for
	}{{60, ExitOK}, {90_000, ExitOK}, {600_000, ExitTimeout}, {0, ExitTimeout}} {
		for _, configured := range []int64{0, 1} { // id of the new master in its configuration: 1 after a change there, 0 after one back
			t.Run(fmt.Sprint(tt.ago, configured), func(t *testing.T) {
				t.Parallel()
				f, old, now := rolePair(t)
				f.brokers[0].id, f.brokers[1].id = 1, 0
				f.brokers[0].config["brokerRole"], f.brokers[1].config["brokerRole"] = "SLAVE", "SYNC_MASTER"
				old.st.Role, old.st.BrokerID, old.st.ConfiguredID = "SLAVE", 1, 1-configured
				now.st.Role, now.st.BrokerID, now.st.ConfiguredID, now.st.Former, now.st.ChangedMillis = "SYNC_MASTER", 0, configured, 1, tt.ago
				limit := "60s"
				if tt.exit != ExitOK {
					limit = "400ms"
				}
				f.mq(tt.exit, "wait", "role", "a/1", "--is", "MASTER", "--for", limit)
				f.mq(tt.exit, "wait", "role", "a/0", "--is", "SLAVE", "--for", limit)
				f.mq(ExitOK, "wait", "role", "a/1", "--is", "SLAVE", "--for", "60s")
				f.mq(ExitOK, "wait", "role", "a/0", "--is", "MASTER", "--for", "60s")
			})
		}
	}
}
