//! The words of [`English`](super::English).

/// Adjectives before a noun.
pub(super) const ADJECTIVES: &[&str] = &[
    "new", "free", "open", "secure", "faster", "global", "local", "small", "simple", "powerful",
    "complete", "digital", "personal", "visual", "interactive", "reliable", "practical", "early",
    "final", "public", "technical", "graphical", "portable", "independent", "modern", "popular",
    "special", "advanced", "leading", "friendly", "affordable", "annual", "automatic", "broad",
    "careful", "clear", "colorful", "common", "compact", "compatible", "compressed", "convenient",
    "creative", "current", "custom", "daily", "detailed", "direct", "distributed", "dynamic",
    "easy", "educational", "efficient", "electronic", "elegant", "enhanced", "exclusive",
    "experimental", "expert", "external", "familiar", "flexible", "foreign", "formal", "frequent",
    "handy", "helpful", "high-speed", "historic", "hosted", "hourly", "improved", "innovative",
    "integrated", "internal", "lightweight", "live", "long-awaited", "major", "mobile",
    "multilingual", "musical", "national", "native", "network-ready", "online", "optional",
    "organized", "original", "parallel", "permanent", "precise", "private", "professional",
    "quarterly", "quick", "rapid", "recent", "regional", "remote", "robust", "scalable",
    "seasonal", "second-generation", "selected", "shared", "silent", "smart", "stable",
    "standard", "streamlined", "student", "third-party", "traditional", "trusted", "universal",
    "updated", "upcoming", "useful", "valuable", "virtual", "weekly", "wireless", "worldwide",
];

/// Topics of a portal of 1997, in the plural.
pub(super) const NOUNS: &[&str] = &[
    "software", "servers", "browsers", "networks", "developers", "customers", "partners", "tools",
    "products", "pages", "sites", "channels", "documents", "modems", "applications", "databases",
    "intranets", "languages", "components", "scripts", "standards", "services", "newsgroups",
    "searches", "downloads", "games", "sounds", "pictures", "fonts", "printers", "screens",
    "certificates", "directories", "calendars", "messages", "groups", "schools", "libraries",
    "magazines", "stores", "reports", "tutorials", "workshops", "previews", "updates", "answers",
    "plug-ins", "protocols", "platforms", "bookmarks", "accountants", "addresses", "agencies",
    "airports", "albums", "analysts", "animations", "archives", "artists", "auctions", "authors",
    "banks", "beaches", "bicycles", "brokers", "budgets", "builders", "buttons", "cables",
    "cameras", "careers", "catalogs", "charts", "cities", "classrooms", "clients", "colleges",
    "columns", "computers", "concerts", "consultants", "contests", "contracts", "cookies",
    "counties", "courses", "designers", "desktops", "dictionaries", "drivers", "editors",
    "elections", "encyclopedias", "engineers", "examples", "experts", "families", "farmers",
    "festivals", "films", "firewalls", "flights", "forecasts", "forms", "forums", "frames",
    "gardens", "gateways", "guides", "handbooks", "headlines", "hobbies", "holidays", "hospitals",
    "hotels", "households", "icons", "indexes", "inventors", "keyboards", "laboratories",
    "laptops", "lawyers", "lessons", "letters", "licenses", "links", "lists", "machines",
    "mailboxes", "managers", "manuals", "maps", "markets", "mayors", "measurements", "meetings",
    "members", "memories", "monitors", "mortgages", "museums", "musicians", "newsletters",
    "newspapers", "notebooks", "offices", "operators", "orchestras", "orders", "outlooks",
    "packages", "painters", "passwords", "patents", "patterns", "payments", "phones",
    "photographers", "players", "poems", "policies", "pools", "portfolios", "postcards", "prices",
    "processors", "programs", "projects", "publishers", "puzzles", "quotes", "radios", "railways",
    "readers", "recipes", "records", "referees", "rentals", "reporters", "researchers",
    "restaurants", "reviews", "routers", "rumors", "salaries", "satellites", "savings",
    "scanners", "schedules", "scientists", "scoreboards", "seasons", "seminars", "shoppers",
    "signatures", "singers", "spreadsheets", "stadiums", "stations", "stocks", "stories",
    "students", "studios", "styles", "subscribers", "summaries", "surveys", "symbols", "tables",
    "teachers", "teams", "telephones", "theaters", "threads", "tickets", "timetables", "topics",
    "tourists", "towns", "trains", "translations", "travelers", "trends", "universities",
    "vacations", "vendors", "videos", "villages", "visitors", "volumes", "voters", "warranties",
    "weekends", "windows", "winners", "wizards", "writers",
];

/// Verbs with a company as subject and a product as object.
pub(super) const VERBS: &[&str] = &[
    "announces", "delivers", "supports", "improves", "introduces", "builds", "presents",
    "extends", "offers", "publishes", "licenses", "simplifies", "demonstrates", "updates",
    "explains", "protects", "connects", "previews", "ships", "chooses", "accelerates", "acquires",
    "adopts", "advertises", "arranges", "assembles", "awards", "backs", "broadcasts", "bundles",
    "certifies", "collects", "combines", "compares", "completes", "considers", "converts",
    "copies", "defends", "designs", "discounts", "distributes", "doubles", "drops", "endorses",
    "enlarges", "exhibits", "expands", "exports", "finances", "forecasts", "funds", "guards",
    "hosts", "imports", "indexes", "installs", "invents", "joins", "launches", "localizes",
    "maintains", "markets", "measures", "merges", "mirrors", "names", "opens", "orders",
    "outsources", "packages", "patents", "photographs", "plans", "postpones", "prepares",
    "prints", "promises", "purchases", "ranks", "rebuilds", "recalls", "records", "reduces",
    "releases", "renames", "repairs", "replaces", "rescues", "reviews", "revises", "rewards",
    "sells", "sketches", "sponsors", "studies", "summarizes", "tests", "translates", "unveils",
    "verifies",
];

/// Imperatives addressed to a reader.
pub(super) const ACTIONS: &[&str] = &[
    "download", "explore", "discover", "try", "create", "share", "search", "order", "compare",
    "learn about", "read about", "join", "register", "upgrade", "preview", "customize", "add",
    "arrange", "ask for", "book", "browse", "build", "call", "change", "check", "choose",
    "collect", "design", "draw", "edit", "enjoy", "find", "follow", "improve", "install",
    "listen to", "look at", "manage", "measure", "meet", "organize", "plan", "print", "protect",
    "rate", "recommend", "save", "see", "sell", "send", "sort", "subscribe to", "talk about",
    "test", "trade", "translate", "visit", "vote for", "watch", "write about",
];

/// Fictitious companies.
pub(super) const MAKERS: &[&str] = &[
    "Northgate", "Harbor Systems", "Bluefield", "Meridian", "Cascade Works", "Silver Lake",
    "Parallax", "Tidewater", "Copper Hill", "Lantern", "Redwood Press", "Summit Data", "Quarry",
    "Windmill", "Foundry Street", "Orchard Lane", "Alder and Finch", "Amberline", "Baxter Cole",
    "Beacon Row", "Birchwood", "Brightwater", "Canal Street", "Castlegate", "Cinder Cone",
    "Clearbrook", "Cobalt", "Corvid", "Crosswind", "Dovetail", "Driftwood", "Eastbank",
    "Elmhurst", "Evergreen Valley", "Falconer", "Fernhill", "Fiddlehead", "Flintlock",
    "Gable House", "Gantry", "Glasswork", "Greyfriars", "Halyard", "Hawthorn", "Hollis Brothers",
    "Inkwell", "Ironbridge", "Jasper Point", "Juniper", "Kestrel", "Keystone Mills", "Larkspur",
    "Ledger", "Limestone", "Longmeadow", "Magpie", "Mariner", "Millrace", "Moorland",
    "Nightingale", "Oakham", "Old Mint", "Osprey", "Outrigger", "Paperclip", "Pemberton",
    "Pinnacle", "Quickstep", "Quill", "Ravenscroft", "Ridgeway", "Riverstone", "Saltmarsh",
    "Sandpiper", "Sextant", "Signal Box", "Slate", "Spindle", "Starling", "Stonecutter",
    "Sundial", "Tamarack", "Thistle", "Thornbury", "Timberline", "Trellis", "Turnstile", "Upland",
    "Vellum", "Viaduct", "Waterwheel", "Weathervane", "Westerly", "Whitcomb", "Wildrose",
    "Yarrow", "Zephyr",
];

/// Cities.
pub(super) const PLACES: &[&str] = &[
    "Boston", "Geneva", "Tokyo", "Sydney", "Toronto", "Berlin", "Madrid", "Oslo", "Atlanta",
    "Seattle", "Dublin", "Singapore", "Athens", "Austin", "Bangkok", "Bombay", "Brussels",
    "Budapest", "Cairo", "Calgary", "Chicago", "Copenhagen", "Denver", "Edinburgh", "Florence",
    "Glasgow", "Hamburg", "Helsinki", "Houston", "Jakarta", "Johannesburg", "Kyoto", "Lima",
    "Lisbon", "London", "Lyon", "Manila", "Melbourne", "Miami", "Milan", "Montreal", "Nairobi",
    "Orlando", "Ottawa", "Paris", "Philadelphia", "Portland", "Prague", "Quebec", "Rome",
    "Rotterdam", "Santiago", "Seoul", "Stockholm", "Taipei", "Vancouver", "Vienna", "Warsaw",
    "Wellington", "Zurich",
];

/// Ends of sentences.
pub(super) const CLOSERS: &[&str] = &[
    "today", "this week", "this summer", "in every office", "at no charge", "on every platform",
    "for the whole company", "without a new modem", "in minutes", "at the conference",
    "for small business", "for teachers and students", "after the keynote",
    "all over the country", "as early as Monday", "at half the price", "at home and at work",
    "before the holidays", "between classes", "by electronic mail", "by the end of June",
    "despite slow lines", "during the trade show", "each morning", "for a limited time",
    "for beginners", "from any desktop", "from one window", "in four languages", "in full color",
    "in plain text", "in the second quarter", "in your neighborhood", "instead of paper",
    "next to the weather", "on a single page", "on compact disc", "on the front page",
    "over an ordinary telephone line", "since last October", "through the firewall",
    "twice a day", "under one roof", "until Friday at noon", "while you sleep",
    "with a single click", "with no extra hardware", "within the budget", "year after year",
];

/// First syllables of product names.
pub(super) const FIRST_SYLLABLES: &[&str] = &[
    "Ac", "Al", "Ar", "Bel", "Bri", "Cal", "Cor", "Cy", "Dar", "Del", "Em", "Ex", "Fal", "Fer",
    "Gal", "Hel", "In", "Jo", "Kel", "Lu", "Mar", "Mon", "Nor", "Om", "Pal", "Per", "Quan", "Ro",
    "Sal", "Tan", "Vel", "Zan",
];

/// Middle syllables of product names.
pub(super) const MIDDLE_SYLLABLES: &[&str] = &[
    "a", "be", "ca", "di", "do", "fi", "go", "gra", "i", "la", "le", "lo", "ma", "me", "mi", "na",
    "ni", "no", "o", "pa", "pe", "ra", "ri", "ro", "sa", "si", "ta", "te", "ti", "va", "ve", "wi",
];

/// Last syllables of product names.
pub(super) const LAST_SYLLABLES: &[&str] = &[
    "base", "bit", "cast", "com", "dex", "dic", "don", "fax", "file", "gate", "lan", "link",
    "lox", "mail", "max", "net", "nix", "pad", "phon", "plex", "ra", "scan", "soft", "star",
    "sys", "talk", "tech", "text", "tron", "type", "view", "ware",
];

/// Words by length, to end a text at an exact length: the entry at index `n` has `n + 1` letters.
pub(super) const BY_LENGTH: &[&str] = &[
    "a", "of", "the", "page", "sites", "served", "network", "document", "published", "connection",
    "information", "applications", "communication",
];
