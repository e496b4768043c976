//! Generates fake secrets in the formats that providers document, independently of our rules.

/// Random number generator with the same sequence in every run (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    pub(crate) fn random_string(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }

    fn alnum(&mut self, length: usize) -> String {
        self.random_string(ALNUM, length)
    }

    fn hex(&mut self, length: usize) -> String {
        self.random_string("0123456789abcdef", length)
    }

    pub(crate) fn base64(&mut self, length: usize) -> String {
        self.random_string(&format!("{ALNUM}+/"), length)
    }

    fn url64(&mut self, length: usize) -> String {
        self.random_string(&format!("{ALNUM}-_"), length)
    }
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A secret inside a typical text.
pub(crate) struct Planted {
    pub(crate) kind: &'static str,
    pub(crate) secret: String,
    /// One or more lines.
    pub(crate) text: String,
}

type Make = fn(&mut Dice) -> String;

/// Secrets that are recognizable by their format in any text.
const BY_FORM: &[(&str, Make)] = &[
    ("AWS access key", |d| format!("{}{}", d.pick(&["AKIA", "ASIA"]), d.random_string(BASE32, 16))),
    ("Google API key", |d| format!("AIza{}", d.url64(35))),
    ("Google OAuth client secret", |d| format!("GOCSPX-{}", d.url64(28))),
    ("Google OAuth token", |d| format!("ya29.{}", d.url64(120))),
    ("Azure client secret", |d| format!("{}8Q~{}", d.alnum(3), d.random_string(&format!("{ALNUM}-_.~"), 34))),
    ("GitHub token", |d| format!("{}_{}", d.pick(&["ghp", "gho", "ghu", "ghs", "ghr"]), d.alnum(36))),
    ("GitHub fine-grained token", |d| format!("github_pat_{}_{}", d.alnum(22), d.alnum(59))),
    ("GitLab token", |d| format!("{}-{}", d.pick(&["glpat", "gldt", "glrt", "glptt"]), d.url64(20))),
    ("Slack bot token", |d| {
        format!(
            "xoxb-{}-{}-{}",
            d.random_string("0123456789", 12),
            d.random_string("0123456789", 13),
            d.alnum(24)
        )
    }),
    ("Slack app token", |d| {
        format!("xapp-1-A{}-{}-{}", d.random_string(UPPER, 10), d.random_string("0123456789", 13), d.hex(64))
    }),
    ("Slack webhook", |d| {
        format!(
            "https://hooks.slack.com/services/T{}/B{}/{}",
            d.random_string(UPPER, 10),
            d.random_string(UPPER, 10),
            d.alnum(24)
        )
    }),
    ("Stripe key", |d| format!("{}_{}", d.pick(&["sk_live", "sk_test", "rk_live"]), d.alnum(24))),
    ("Stripe webhook secret", |d| format!("whsec_{}", d.alnum(32))),
    ("OpenAI key", |d| format!("sk-proj-{}T3BlbkFJ{}", d.url64(74), d.url64(74))),
    ("OpenAI key, old form", |d| format!("sk-{}T3BlbkFJ{}", d.alnum(20), d.alnum(20))),
    ("Anthropic key", |d| format!("sk-ant-api03-{}AA", d.url64(93))),
    ("OpenRouter key", |d| format!("sk-or-v1-{}", d.hex(64))),
    ("Groq key", |d| format!("gsk_{}", d.alnum(52))),
    ("Hugging Face token", |d| {
        format!("hf_{}", d.random_string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 34))
    }),
    ("Replicate token", |d| format!("r8_{}", d.alnum(37))),
    ("npm token", |d| format!("npm_{}", d.alnum(36))),
    ("PyPI token", |d| format!("pypi-AgEIcHlwaS5vcmc{}", d.url64(150))),
    ("RubyGems key", |d| format!("rubygems_{}", d.hex(48))),
    ("SendGrid key", |d| format!("SG.{}.{}", d.url64(22), d.url64(43))),
    ("Twilio API key", |d| format!("SK{}", d.hex(32))),
    ("Telegram bot token", |d| format!("{}:AA{}", d.random_string("123456789", 10), d.url64(33))),
    ("Discord webhook", |d| {
        format!("https://discord.com/api/webhooks/{}/{}", d.random_string("123456789", 19), d.url64(68))
    }),
    ("DigitalOcean token", |d| format!("dop_v1_{}", d.hex(64))),
    ("Docker token", |d| format!("dckr_pat_{}", d.url64(27))),
    ("Vault token", |d| format!("hvs.{}", d.url64(90))),
    ("Terraform Cloud token", |d| format!("{}.atlasv1.{}", d.alnum(14), d.url64(67))),
    ("Databricks token", |d| format!("dapi{}", d.hex(32))),
    ("Grafana token", |d| format!("glsa_{}_{}", d.alnum(32), d.hex(8))),
    ("New Relic key", |d| format!("NRAK-{}", d.random_string(UPPER, 27))),
    ("Sentry token", |d| format!("sntryu_{}", d.hex(64))),
    ("Linear key", |d| format!("lin_api_{}", d.alnum(40))),
    ("Notion token", |d| format!("ntn_{}", d.alnum(46))),
    ("Shopify token", |d| format!("shpat_{}", d.hex(32))),
    ("Mailgun key", |d| format!("key-{}", d.hex(32))),
    ("Mailchimp key", |d| format!("{}-us{}", d.hex(32), d.pick(&["1", "14", "21"]))),
    ("Postman key", |d| format!("PMAK-{}-{}", d.hex(24), d.hex(34))),
    ("Pulumi token", |d| format!("pul-{}", d.hex(40))),
    ("Doppler token", |d| format!("dp.pt.{}", d.alnum(43))),
    ("Airtable token", |d| format!("pat{}.{}", d.alnum(14), d.hex(64))),
    ("Figma token", |d| format!("figd_{}", d.url64(40))),
    ("Tailscale key", |d| format!("tskey-auth-{}-{}", d.alnum(12), d.alnum(32))),
    ("age secret key", |d| {
        format!("AGE-SECRET-KEY-1{}", d.random_string("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))
    }),
    ("JSON Web Token", |d| format!("eyJ{}.eyJ{}.{}", d.url64(33), d.url64(120), d.url64(43))),
];

/// Secrets that are recognizable by the name they are assigned to.
const BY_NAME: &[(&str, Make)] = &[
    ("AWS secret key", |d| d.base64(40)),
    ("random password", |d| d.random_string(&format!("{ALNUM}!@#$%^*"), 16)),
    ("hexadecimal secret", |d| d.hex(32)),
    ("random token", |d| d.url64(40)),
    ("base64 secret", |d| format!("{}=", d.base64(43))),
];

pub(crate) fn plant(dice: &mut Dice, number: usize) -> Planted {
    match number % 10 {
        0..=5 => {
            let (kind, make) = BY_FORM[(number / 10 * 6 + number % 10) % BY_FORM.len()];
            let secret = make(dice);
            Planted { kind, text: place_anywhere(dice, &secret), secret }
        }
        6 | 7 => {
            let (kind, make) = BY_NAME[(number / 10 * 2 + number % 10) % BY_NAME.len()];
            let secret = make(dice);
            Planted { kind, text: assign_to_name(dice, &secret), secret }
        }
        8 => {
            let secret = dice.random_string(&format!("{ALNUM}!$%-_"), 14);
            let (scheme, user) = (
                dice.pick(&["postgres", "mysql", "redis", "amqp", "https"]),
                dice.pick(&["app", "root", ""]),
            );
            let text = format!("DATABASE = {scheme}://{user}:{secret}@db.internal:5432/shop");
            Planted { kind: "password in a URL", secret, text }
        }
        _ => plant_private_key(dice),
    }
}

fn place_anywhere(dice: &mut Dice, secret: &str) -> String {
    let way = dice.below(10);
    match way {
        0 => format!("SERVICE_LOGIN={secret}"),
        1 => format!("    login: {secret}"),
        2 => format!("  \"login\": \"{secret}\","),
        3 => format!("const client = connect('{secret}');"),
        4 => format!("curl -H 'Authorization: Bearer {secret}' https://api.shop.test/v1/orders"),
        5 => format!("Log in with {secret} until the new one is there."),
        6 => format!("- `{secret}`"),
        7 => format!("# old: {secret}"),
        8 => format!("{{\"script\": \"login\\n{secret}\\nlogout\"}}"),
        _ => secret.to_string(),
    }
}

fn assign_to_name(dice: &mut Dice, secret: &str) -> String {
    let name =
        dice.pick(&["secret_key", "API_KEY", "dbPassword", "authToken", "CLIENT_SECRET", "smtp-password"]);
    match dice.below(6) {
        0 => format!("{name}={secret}"),
        1 => format!("export {name}=\"{secret}\""),
        2 => format!("  \"{name}\": \"{secret}\","),
        3 => format!("{name}: {secret}"),
        4 => format!("let {name} = '{secret}';"),
        _ => format!("<{name}>{secret}</{name}>").replace("smtp-", ""),
    }
}

fn plant_private_key(dice: &mut Dice) -> Planted {
    let name = dice.pick(&["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"]);
    let lines: Vec<String> = (0..4 + dice.below(12)).map(|_| dice.base64(64)).collect();
    let secret = lines[1].clone();
    let marks = (format!("-----BEGIN {name}-----"), format!("-----END {name}-----"));
    let text = match dice.below(3) {
        0 => format!("{}\n{}\n{}", marks.0, lines.join("\n"), marks.1),
        1 => format!("key: |\n  {}\n  {}\n  {}", marks.0, lines.join("\n  "), marks.1),
        _ => format!("{{\"key\": \"{}\\n{}\\n{}\\n\"}}", marks.0, lines.join("\\n"), marks.1),
    };
    Planted { kind: "private key", secret, text }
}
