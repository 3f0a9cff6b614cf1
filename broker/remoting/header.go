package remoting

import "strconv"

// Header is a decoded header. Remark and Ext alias the frame they came from.
type Header struct {
	Code      int
	Language  string // the enum's name; names we don't know are kept as they are
	Version   int
	Opaque    int32
	Flag      int
	Remark    []byte // nil = none
	Ext       Fields
	Serialize byte // JSON or Binary
}

// IsResponse says whether the frame answers a request.
func (h *Header) IsResponse() bool { return h.Flag&flagResponse != 0 }

// languages are LanguageCode's names by number.
var languages = [...]string{
	"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER",
	"HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
}

// goLanguage is the name we send.
const goLanguage = "GO"

// maxLanguage bounds the name of an unknown language, in bytes.
const maxLanguage = 64

// languageName is the name of a binary header's language byte.
func languageName(b byte) string {
	if int(b) < len(languages) {
		return languages[b]
	}
	return "LANGUAGE_" + strconv.Itoa(int(b))
}

// languageByte is the number of a name; names without one count as OTHER.
func languageByte(name string) byte {
	for i, n := range languages {
		if n == name {
			return byte(i)
		}
	}
	return 7
}

// languageOf returns the name as a string, without allocation for those we know.
func languageOf(name []byte) string {
	for _, n := range languages {
		if string(name) == n {
			return n
		}
	}
	if len(name) > maxLanguage {
		name = name[:maxLanguage]
	}
	return string(name)
}
