package admin

import (
	"context"
	"log/slog"

	"mqctl/broker/remoting"
)

// Secret is a text that no form of output shows: as text, JSON and in logs it
// is Hidden. Only calls that send it to a broker look inside, with Reveal.
type Secret struct{ text string }

// Hidden is what a Secret looks like.
const Hidden = "******"

// NewSecret keeps a text from being shown.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal is the text itself.
func (s Secret) Reveal() string { return s.text }

// Empty reports whether there is no secret at all.
func (s Secret) Empty() bool { return s.text == "" }

func (s Secret) String() string { return Hidden }

// GoString is what %#v prints.
func (s Secret) GoString() string { return Hidden }

// MarshalJSON writes Hidden.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Hidden + `"`), nil }

// LogValue is what a log shows.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Hidden) }

// User is an account of a broker (UserInfo). Type is Super or Normal, Status
// enable or disable; Apache's brokers also take other spellings of case.
type User struct {
	Name     string
	Password Secret // empty in an answer that does not tell it
	Type     string
	Status   string
}

type userBody struct {
	Username   string `json:"username,omitempty"`
	Password   string `json:"password,omitempty"`
	UserType   string `json:"userType,omitempty"`
	UserStatus string `json:"userStatus,omitempty"`
}

func (b userBody) user() User {
	return User{Name: b.Username, Password: NewSecret(b.Password), Type: b.UserType, Status: b.UserStatus}
}

// User reads an account (3004); *NotFound when there is none.
func (c *Client) User(ctx context.Context, addr, name string) (*User, error) {
	r := request{code: remoting.ReqAuthGetUser, ext: remoting.Map{"username": name}}
	resp, err := c.call(ctx, addr, r)
	if err != nil {
		return nil, err
	}
	var b userBody
	if len(resp.Body) > 0 {
		if err := decode(addr, r.code, resp.Body, &b); err != nil {
			return nil, err
		}
	}
	if b.Username == "" {
		return nil, &NotFound{Kind: "user", Name: name, Where: addr}
	}
	u := b.user()
	return &u, nil
}

// Users lists accounts (3005); filter is a part of the name, "" for all.
func (c *Client) Users(ctx context.Context, addr, filter string) ([]User, error) {
	r := request{code: remoting.ReqAuthListUser, ext: optional("filter", filter)}
	resp, err := c.call(ctx, addr, r)
	if err != nil || len(resp.Body) == 0 {
		return nil, err
	}
	var all []userBody
	if err := decode(addr, r.code, resp.Body, &all); err != nil {
		return nil, err
	}
	out := make([]User, len(all))
	for i, b := range all {
		out[i] = b.user()
	}
	return out, nil
}

// PutUser creates an account (3001) or changes one (3002). What is empty is
// left as it is, or given the broker's default.
func (c *Client) PutUser(ctx context.Context, addr string, u User, create bool) error {
	// The password leaves its Secret here and nowhere else.
	b, err := marshal(userBody{u.Name, u.Password.Reveal(), u.Type, u.Status})
	if err != nil {
		return err
	}
	code := remoting.ReqAuthUpdateUser
	if create {
		code = remoting.ReqAuthCreateUser
	}
	_, err = c.call(ctx, addr, request{code: code, ext: remoting.Map{"username": u.Name}, body: b, write: true})
	return err
}

// DeleteUser removes an account (3003).
func (c *Client) DeleteUser(ctx context.Context, addr, name string) error {
	_, err := c.call(ctx, addr, request{code: remoting.ReqAuthDeleteUser, ext: remoting.Map{"username": name}, write: true})
	return err
}

// ACL are the access rules of a subject ("User:name"), as AclInfo has them.
type ACL struct {
	Subject  string      `json:"subject"`
	Policies []ACLPolicy `json:"policies"`
}

// ACLPolicy is a list of rules; Type is Custom or Default.
type ACLPolicy struct {
	Type    string     `json:"policyType"`
	Entries []ACLEntry `json:"entries"`
}

// ACLEntry is one rule. Decision is Allow or Deny.
type ACLEntry struct {
	Resource  string   `json:"resource"` // Topic:orders, Group:*, Cluster:c
	Actions   []string `json:"actions"`  // Pub Sub Create Update Delete Get List All
	SourceIPs []string `json:"sourceIps"`
	Decision  string   `json:"decision"`
}

// ACL reads the rules of a subject (3009); *NotFound when it has none.
func (c *Client) ACL(ctx context.Context, addr, subject string) (*ACL, error) {
	r := request{code: remoting.ReqAuthGetACL, ext: remoting.Map{"subject": subject}}
	resp, err := c.call(ctx, addr, r)
	if err != nil {
		return nil, err
	}
	var a ACL
	if len(resp.Body) > 0 {
		if err := decode(addr, r.code, resp.Body, &a); err != nil {
			return nil, err
		}
	}
	if a.Subject == "" {
		return nil, &NotFound{Kind: "access rule", Name: subject, Where: addr}
	}
	return &a, nil
}

// ACLs lists rules (3010); the filters are parts of subject and resource.
func (c *Client) ACLs(ctx context.Context, addr, subject, resource string) ([]ACL, error) {
	ext := remoting.Map{}
	if subject != "" {
		ext["subjectFilter"] = subject
	}
	if resource != "" {
		ext["resourceFilter"] = resource
	}
	r := request{code: remoting.ReqAuthListACL, ext: ext}
	resp, err := c.call(ctx, addr, r)
	if err != nil || len(resp.Body) == 0 {
		return nil, err
	}
	var all []ACL
	if err := decode(addr, r.code, resp.Body, &all); err != nil {
		return nil, err
	}
	return all, nil
}

// PutACL creates the rules of a subject (3006) or adds to and changes them (3007):
// entries of the same policy and resource are replaced, others stay.
func (c *Client) PutACL(ctx context.Context, addr string, a ACL, create bool) error {
	b, err := marshal(a)
	if err != nil {
		return err
	}
	code := remoting.ReqAuthUpdateACL
	if create {
		code = remoting.ReqAuthCreateACL
	}
	_, err = c.call(ctx, addr, request{code: code, ext: remoting.Map{"subject": a.Subject}, body: b, write: true})
	return err
}

// DeleteACL removes the rules of a subject, of one resource or of all (3008).
func (c *Client) DeleteACL(ctx context.Context, addr, subject, policyType, resource string) error {
	ext := remoting.Map{"subject": subject}
	if policyType != "" {
		ext["policyType"] = policyType
	}
	if resource != "" {
		ext["resource"] = resource
	}
	_, err := c.call(ctx, addr, request{code: remoting.ReqAuthDeleteACL, ext: ext, write: true})
	return err
}

// optional is a request's field that is left out when empty.
func optional(key, value string) remoting.Map {
	if value == "" {
		return remoting.Map{}
	}
	return remoting.Map{key: value}
}
