package broker

import (
	"slices"
	"strings"
	"sync"
)

// Class says what becomes of a setting in a configuration file.
type Class string

// The classes of settings.
const (
	ClassSame     Class = "SAME"      // does what it does in RocketMQ
	ClassOurs     Class = "OURS"      // only this program has it
	ClassNoEffect Class = "NO_EFFECT" // taken and kept, changes nothing here
	ClassAbsent   Class = "ABSENT"    // of a feature that is not built: possible at its default only
	ClassOld      Class = "OLD"       // an old spelling of another key
	ClassForeign  Class = "FOREIGN"   // of another program of RocketMQ's
	ClassUnknown  Class = "UNKNOWN"   // nobody's
)

// CatalogEntry is one documented setting of RocketMQ 5.3.3 or of this program.
type CatalogEntry struct {
	Key     *Key
	Beans   []string // classes of RocketMQ that have it; none: ours
	Program string   // broker, nameserver, controller or container
	Class   Class
	NewName string // of an old spelling
}

type catalog struct {
	sorted []CatalogEntry
	byName map[string][]CatalogEntry // brokers' first
	beans  map[string][]string
}

var allKeys = sync.OnceValue(func() *catalog {
	c := &catalog{byName: map[string][]CatalogEntry{}, beans: map[string][]string{}}
	for _, b := range beanKeys {
		for _, k := range strings.Fields(b.keys) {
			c.beans[k] = append(c.beans[k], b.bean)
		}
	}
	for _, k := range KnownKeys() {
		c.add(CatalogEntry{Key: k, Beans: c.beans[k.Name], Program: "broker", Class: classOf(k)})
	}
	for _, f := range foreignKeys {
		keyGroup{use: f.use, section: "apache", text: f.text, keys: f.keys}.each(func(k *Key) {
			k.Applies = Restart
			c.add(CatalogEntry{Key: k, Beans: []string{f.bean}, Program: f.program, Class: ClassForeign})
		})
	}
	for old, name := range keys().alias {
		c.add(CatalogEntry{Key: &Key{Name: old, Kind: LookupKey(name).Kind, Default: LookupKey(name).Default, Applies: LookupKey(name).Applies, Section: LookupKey(name).Section,
			Text: "Old spelling of " + name + "."}, Program: "broker", Class: ClassOld, NewName: name})
	}
	slices.SortStableFunc(c.sorted, func(a, b CatalogEntry) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return c
})

func (c *catalog) add(e CatalogEntry) {
	c.sorted = append(c.sorted, e)
	c.byName[e.Key.Name] = append(c.byName[e.Key.Name], e)
}

func classOf(k *Key) Class {
	switch {
	case k.Use == Ignored:
		return ClassNoEffect
	case k.Use == Fixed:
		return ClassAbsent
	case k.Own:
		return ClassOurs
	}
	return ClassSame
}

// Catalog lists every setting of RocketMQ's brokers, nameservers, controllers
// and containers, and ours, by name.
func Catalog() []CatalogEntry { return allKeys().sorted }

// CatalogOf finds the settings of one name, that of brokers first.
func CatalogOf(name string) []CatalogEntry { return allKeys().byName[name] }

// NearestSetting is the setting of any program whose name is most like name, ""
// if none is close.
func NearestSetting(name string) string {
	names := make([]string, 0, len(allKeys().sorted))
	for _, e := range allKeys().sorted {
		if e.Class != ClassOld {
			names = append(names, e.Key.Name)
		}
	}
	return nearest(name, names)
}
