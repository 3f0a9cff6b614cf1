package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mqctl/store/vfs"
)

// nameserverKeys are the settings of a nameserver in a process of its own, by
// name: NamesrvConfig's and NettyServerConfig's.
var nameserverKeys = sync.OnceValue(func() map[string]*Key {
	out := map[string]*Key{}
	for _, e := range Catalog() {
		if e.Program == "nameserver" {
			out[e.Key.Name] = e.Key
		}
	}
	for _, bean := range beanKeys {
		if bean.bean != "NamesrvConfig" && bean.bean != "NettyServerConfig" {
			continue
		}
		for _, name := range strings.Fields(bean.keys) {
			if k := LookupKey(name); k != nil && out[name] == nil {
				shared := *k
				shared.Computed = false
				switch name {
				case "listenPort":
					shared.Default, shared.Text = "9876", "Port of the nameserver."
				case "bindAddress":
					shared.Default, shared.Text = "0.0.0.0", "Address that the nameserver listens at."
				default:
					shared.Use, shared.Text = Ignored, "It tunes how Java's server reads and writes."
				}
				out[name] = &shared
			}
		}
	}
	return out
})

// LoadNameserver reads and checks the configuration of a nameserver in a process
// of its own: the built-in defaults, the file (Apache's properties or TOML; ""
// means none), and the settings of flags. Its error is ConfigErrors.
func LoadNameserver(file string, data []byte, flags map[string]string) (*Config, error) {
	c := &Config{File: file, in: ConfigInput{File: file, Data: data}, values: map[string]*Setting{}, own: nameserverKeys()}
	for name, k := range c.own {
		c.values[name] = &Setting{Key: k, Value: k.Default, Default: k.Default, Origin: Origin{Kind: "default"}}
	}
	if bind := c.values["bindAddress"]; file == "" {
		bind.Value, bind.Default = "127.0.0.1", "127.0.0.1" // a try-out opens nothing to the network
	}
	var problems ConfigErrors
	c.loadFile(&problems)
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		c.set(key, flags[key], Origin{Kind: "flag"}, 0, &problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// lookup finds a key of the program that the configuration is of.
func (c *Config) lookup(name string) *Key {
	if c.own == nil {
		return LookupKey(name)
	}
	return c.own[name]
}

// unknown says of a name that is no key what may have been meant.
func (c *Config) unknown(name string) (why, try string) {
	if c.own == nil {
		return "there is no such key", didYouMean(NearestKey(name))
	}
	if found := CatalogOf(name); len(found) > 0 {
		why = fmt.Sprintf("it is a setting of a %s, and this is the file of a nameserver", found[0].Program)
		if own, embedded := strings.CutPrefix(name, "nameserver.embedded."); embedded && c.own[own] != nil {
			try = "write " + own + " in [nameserver] or above all sections"
		}
		return why, try
	}
	near := nearest(name, slices.Sorted(maps.Keys(c.own)))
	if near == "" {
		return "there is no such key", "see nameserver start --print-config for all keys"
	}
	return "there is no such key", didYouMean(near)
}

// SaveNameserver writes settings that were changed while a nameserver ran into
// the file that it was started from; comments and all else stay.
func SaveNameserver(fsys vfs.FS, path string, isTOML bool, values map[string]string) error {
	data, err := readSmallFile(fsys, path)
	if err != nil {
		return err
	}
	if data == nil {
		return fmt.Errorf("%s is not there any more; put it back and try again", path)
	}
	edit := editProperties
	if isTOML {
		edit = editTOML
	}
	out, err := edit(data, values)
	if err != nil {
		return fmt.Errorf("%s: %w; change the file by hand", path, err)
	}
	return replaceFile(fsys, path, out)
}
