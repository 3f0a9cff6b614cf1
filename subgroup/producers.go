package subgroup

// RegisterProducer takes a heartbeat's entry for one producer group.
func (m *Members) RegisterProducer(c Client, name string) {
	if name == "" || len(name) > maxProducerGroup {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.join(c.Peer, name, false) {
		return
	}
	c.LastMillis = m.now()
	if have := find(m.producers[name], c.Peer.ID()); have != nil {
		have.Client = c
		return
	}
	m.producers[name] = append(m.producers[name], &member{Client: c})
}

// Producers lists the clients of a producer group, nil if there are none.
func (m *Members) Producers(name string) []Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return clients(m.producers[name])
}

// AllProducers lists the clients of every producer group.
func (m *Members) AllProducers() map[string][]Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string][]Client, len(m.producers))
	for name, members := range m.producers {
		all[name] = clients(members)
	}
	return all
}

func clients(members []*member) []Client {
	var list []Client
	for _, c := range members {
		list = append(list, c.Client)
	}
	return list
}
