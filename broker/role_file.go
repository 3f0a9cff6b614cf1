package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"mqctl/store/vfs"
)

// roleName is the file below <root>/config that keeps the part a change of roles
// gave this broker. It overrides brokerRole and brokerId of every other source,
// since those are what somebody wrote before the change.
//
//	{"role":"SLAVE","id":1,"epoch":3}
//
// epoch is the stateVersion of data versions; it only ever rises. former is the id
// that a master had as a slave, which the old master takes when it comes back.
// rejoin marks a master that was made a slave by force and whose log was not
// compared with the new master's yet: it may have a tail that the new one lacks.
const roleName = "role.json"

// heldRole is the content of role.json.
type heldRole struct {
	Role   string `json:"role"`
	ID     int64  `json:"id"`
	Epoch  int64  `json:"epoch"`
	Former int64  `json:"former,omitempty"`
	Rejoin bool   `json:"rejoin,omitempty"`
}

// maxEpoch bounds the epoch of the file: what an edited one says must leave room for
// the changes to come.
const maxEpoch = 1 << 53

// maxRoleBytes bounds the file; ours has some 60 bytes.
const maxRoleBytes = 4096

func rolePath(root string) string { return filepath.Join(root, "config", roleName) }

// loadRole reads role.json; nil without an error if there is none.
func loadRole(fsys vfs.FS, root string) (*heldRole, error) {
	data, err := readSmallFile(fsys, rolePath(root))
	if data == nil && err == nil {
		return nil, nil
	}
	if err == nil && len(data) > maxRoleBytes {
		err = fmt.Errorf("it has %d bytes", len(data))
	}
	var h heldRole
	if err == nil {
		h, err = parseRole(data)
	}
	if err != nil {
		return nil, &ConfigError{File: rolePath(root), Why: "the role this broker was given is not readable: " + err.Error(),
			Try: "look which broker of its name is the master now (mqctl cluster list); then write the file anew, or remove it to start with brokerRole and brokerId of the configuration"}
	}
	return &h, nil
}

func parseRole(data []byte) (heldRole, error) {
	var h heldRole
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return h, errors.New("more follows the object")
	}
	return h, h.check()
}

// check looks whether the values agree.
func (h *heldRole) check() error {
	switch {
	case roleNamed(h.Role).String() != h.Role:
		return fmt.Errorf("role %.40q is none of ASYNC_MASTER, SYNC_MASTER, SLAVE", h.Role)
	case h.Role == Slave.String() && h.ID <= 0, h.Role != Slave.String() && h.ID != 0:
		return fmt.Errorf("role %s with id %d: a master has 0, slaves have 1 and above", h.Role, h.ID)
	case h.Epoch < 0 || h.Former < 0:
		return fmt.Errorf("epoch %d or former id %d is negative", h.Epoch, h.Former)
	case h.Epoch > maxEpoch:
		return fmt.Errorf("epoch %d is above %d: no number of changes of roles leads there", h.Epoch, int64(maxEpoch))
	}
	return nil
}

// save makes the role durable; after an error the file is the old one.
func (h *heldRole) save(fsys vfs.FS, root string) error {
	if err := h.check(); err != nil {
		return err
	}
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return replaceFile(fsys, rolePath(root), append(data, '\n'))
}

// loadHeldRole lets role.json override brokerRole and brokerId.
func (c *Config) loadHeldRole(problems *ConfigErrors) {
	c.configuredID = c.Int("brokerId")
	if c.in.FS == nil {
		return
	}
	root := c.Value("storePathRootDir")
	h, err := loadRole(c.in.FS, root)
	if err != nil {
		var e *ConfigError
		if errors.As(err, &e) {
			*problems = append(*problems, e)
		}
		return
	}
	if h == nil {
		return
	}
	origin := Origin{Kind: "role", Where: rolePath(root)}
	if before := c.Value("brokerRole"); before != h.Role || c.Int("brokerId") != h.ID {
		c.warn("%s: a change of roles made this broker %s with id %d; brokerRole=%s and brokerId=%d (%s) are not followed",
			origin.Where, h.Role, h.ID, before, c.configuredID, c.Origin("brokerId"))
	}
	embedded := *c.values["nameserver.embedded.enable"]
	for key, v := range map[string]string{"brokerRole": h.Role, "brokerId": strconv.FormatInt(h.ID, 10)} {
		s := c.values[key]
		s.Value, s.Origin = v, origin
	}
	c.held = h
	c.recomputeDefaults()
	if embedded.Origin.Kind == "default" {
		// Others register at the nameserver of a master; it stays when that becomes a slave.
		c.values["nameserver.embedded.enable"] = &embedded
	}
}
