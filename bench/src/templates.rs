//! Templates: parse, compose and render against four engines and against copying the same segments.

use std::collections::BTreeMap;

use callsheet_core::render::render;
use callsheet_core::{
    FileFormat, Library, Listing, ListingLimits, PromptFormat, Request, SharedText, SourceError, SourceId,
    SourceRoot, Sources, read_request,
};

use crate::measure::{Contender, contender, race};
use crate::memory::peak_of;
use crate::report::{Report, Row, Taken};

/// The same text for everybody: with slots, and with fragments where the engine has them.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    template: String,
    fragments: Vec<(String, String)>,
    values: BTreeMap<String, String>,
}

impl Case {
    fn new(name: &'static str, bytes: usize, slots: usize, fragments: usize, value: usize) -> Self {
        let values: BTreeMap<String, String> = (0..slots)
            .map(|at| {
                (
                    format!("value_{at}"),
                    format!("{at}: ").chars().chain("lorem ipsum ".chars().cycle()).take(value).collect(),
                )
            })
            .collect();
        let words = "The quick brown fox jumps over the lazy dog and goes home to read a book.\n";
        let parts = fragments + 1;
        let text_per_slot = (bytes / slots.max(1)).max(2);
        let text: String = words.chars().cycle().take(text_per_slot).collect();
        let mut texts = vec![String::new(); parts];
        for at in 0..slots {
            let part = &mut texts[at % parts];
            part.push_str(&text);
            part.push_str(&format!("{{{{value_{at}}}}}"));
        }
        let mut template = texts.remove(0);
        let fragments: Vec<(String, String)> =
            texts.into_iter().enumerate().map(|(at, text)| (format!("part_{at}"), text)).collect();
        for (name, _) in &fragments {
            template.push_str(&format!("\n{{{{> {name}}}}}"));
        }
        template.push_str("\nend");
        Self { name, template, fragments, values }
    }

    /// What everybody must print, cut where segments meet.
    fn segments(&self) -> Vec<&str> {
        let mut segments = Vec::new();
        self.cut(&self.template, &mut segments);
        segments
    }

    fn cut<'c>(&'c self, mut text: &'c str, segments: &mut Vec<&'c str>) {
        while let Some((before, after)) = text.split_once("{{") {
            let (name, rest) = after.split_once("}}").unwrap_or((after, ""));
            segments.push(before);
            match name.strip_prefix("> ") {
                Some(name) => {
                    let fragment = self.fragments.iter().find(|(known, _)| known == name);
                    self.cut(fragment.map_or("", |(_, text)| text.as_str()), segments);
                }
                None => segments.push(self.values.get(name).map_or("", String::as_str)),
            }
            text = rest;
        }
        segments.push(text);
    }

    fn with_includes(&self, include: impl Fn(&str) -> String) -> String {
        let mut text = self.template.clone();
        for (name, _) in &self.fragments {
            text = text.replace(&format!("{{{{> {name}}}}}"), &include(name));
        }
        text
    }
}

const RECIPE: &str = "format = \"markdown\"\n[[section]]\nname = \"role\"\npart = \"system\"\n\
                      blocks = [{ template = \"templates/identity/me.md\" }]\n";

/// A project that holds one recipe, one template and its fragments.
pub(crate) struct Files(BTreeMap<String, SharedText>);

impl Files {
    fn of(case: &Case) -> Self {
        let template = ("templates/identity/me.md".to_string(), SharedText::from(case.template.clone()));
        let Self(mut files) = Self::recipe(RECIPE);
        let fragments = case
            .fragments
            .iter()
            .map(|(name, text)| (format!("templates/shared/{name}.md"), SharedText::from(text.clone())));
        files.extend(fragments.chain([template]));
        Self(files)
    }

    /// A project that holds one recipe.
    pub(crate) fn recipe(text: &'static str) -> Self {
        Self(BTreeMap::from([("recipes/bench.toml".to_string(), SharedText::from(text))]))
    }
}

impl Sources for Files {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        Ok(if id.root() == SourceRoot::Builtin { self.0.get(id.path()).cloned() } else { None })
    }
    fn list(&self, _: &SourceId, _: ListingLimits) -> Result<Option<Listing>, SourceError> {
        Ok(None)
    }
}

fn request(case: &Case) -> Request {
    let mut request =
        read_request("bench", &"recipe = \"bench\"".into(), FileFormat::Toml).expect("a request");
    request.values = case
        .values
        .iter()
        .map(|(key, value)| (key, SharedText::from(value.clone())))
        .collect();
    request
}

struct Results {
    limit: f64,
    ours: f64,
    peers: Vec<(&'static str, f64)>,
}

/// One race. `parsed`: everybody may prepare the template beforehand.
fn run(case: &Case, parsed: bool, rounds: usize) -> Results {
    let segments = case.segments();
    let expected: String = segments.concat();
    let files = Files::of(case);
    let request = request(case);
    let kept = Library::new(&files);
    let recipe = kept.recipe(&request).expect("a recipe");
    let ours = |library: &Library<&Files>| {
        let composed = library.compose(&request, &recipe).expect("a prompt");
        render(&composed.prompt, PromptFormat::Markdown, None).expect("a text")
    };
    assert_eq!(ours(&kept).text, expected, "callsheet, {}", case.name);

    let jinja = case.with_includes(|name| format!("{{% include \"{name}\" %}}"));
    let jinja_parts: Vec<(String, String)> = case.fragments.clone();
    let mut minijinja_env = minijinja::Environment::new();
    for (name, text) in &jinja_parts {
        minijinja_env.add_template_owned(name.clone(), text.clone()).expect("minijinja");
    }
    minijinja_env.add_template_owned("main", jinja.clone()).expect("minijinja");
    let minijinja_render = |env: &minijinja::Environment<'_>| {
        env.get_template("main").and_then(|main| main.render(&case.values)).expect("minijinja")
    };
    assert_eq!(minijinja_render(&minijinja_env), expected, "minijinja");

    let new_tera = || {
        let mut tera = tera::Tera::default();
        let all = jinja_parts
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .chain([("main", jinja.as_str())]);
        tera.add_raw_templates(all).expect("tera");
        tera
    };
    let tera_context = || tera::Context::from_serialize(&case.values).expect("tera");
    let kept_tera = new_tera();
    assert_eq!(kept_tera.render("main", &tera_context()).expect("tera"), expected, "tera");

    let new_handlebars = || {
        let mut handlebars = handlebars::Handlebars::new();
        handlebars.register_escape_fn(handlebars::no_escape);
        for (name, text) in &jinja_parts {
            handlebars.register_partial(name, text).expect("handlebars");
        }
        handlebars.register_template_string("main", &case.template).expect("handlebars");
        handlebars
    };
    let kept_handlebars = new_handlebars();

    let upon_text = case.with_includes(|name| format!("{{% include \"{name}\" %}}"));
    let new_upon = || {
        let mut engine = upon::Engine::new();
        for (name, text) in &jinja_parts {
            engine.add_template(name.clone(), text.clone()).expect("upon");
        }
        engine.add_template("main", upon_text.clone()).expect("upon");
        engine
    };
    let kept_upon = new_upon();
    let upon_render =
        |engine: &upon::Engine<'_>| engine.template("main").render(&case.values).to_string().expect("upon");
    assert_eq!(upon_render(&kept_upon), expected, "upon");

    let mut contenders: Vec<Contender<'_>> = vec![
        contender("limit", || {
            let mut text = String::with_capacity(expected.len());
            segments.iter().for_each(|segment| text.push_str(segment));
            // Otherwise the compiler sees that it is never read, and copies nothing.
            std::hint::black_box(text).len()
        }),
        contender("callsheet", || {
            if parsed { ours(&kept).text.len() } else { ours(&Library::new(&files)).text.len() }
        }),
        contender("minijinja 3", || {
            if parsed {
                return minijinja_render(&minijinja_env).len();
            }
            let mut env = minijinja::Environment::new();
            for (name, text) in &jinja_parts {
                env.add_template(name, text).expect("minijinja");
            }
            env.add_template("main", &jinja).expect("minijinja");
            minijinja_render(&env).len()
        }),
        contender("tera 2", || {
            if parsed {
                return kept_tera.render("main", &tera_context()).expect("tera").len();
            }
            new_tera().render("main", &tera_context()).expect("tera").len()
        }),
        contender("upon 0.11", || {
            if parsed { upon_render(&kept_upon).len() } else { upon_render(&new_upon()).len() }
        }),
        contender("handlebars 6", || {
            if parsed {
                return kept_handlebars.render("main", &case.values).expect("handlebars").len();
            }
            new_handlebars().render("main", &case.values).expect("handlebars").len()
        }),
    ];
    let times = race(&mut contenders, rounds);
    let peers =
        contenders.iter().zip(&times).skip(2).map(|(contender, time)| (contender.name, *time)).collect();
    Results { limit: times[0], ours: times[1], peers }
}

pub(crate) fn report(report: &mut Report, rounds: usize) {
    let small = Case::new("2 KB template, 20 values", 1_800, 20, 0, 10);
    let medium = Case::new("50 KB, 200 values, 20 fragments", 45_000, 200, 20, 20);
    let one = Case::new("one value of 10 MB", 100, 1, 0, 10_000_000);
    let thousand = Case::new("1,000 values of 10 KB", 20_000, 1_000, 0, 10_000);
    let goals: [(&Case, bool, f64, f64); 5] = [
        (&small, false, 4.0, 20.0),
        (&medium, false, 4.0, 8.0),
        (&medium, true, 1.0, 3.5),
        (&one, false, 1.0, 1.25),
        (&thousand, false, 1.0, 1.25),
    ];
    for (case, parsed, ahead, near) in goals {
        let Results { limit, ours, peers } = run(case, parsed, rounds);
        let (peer, best) = peers.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).expect("peers");
        let work = if parsed {
            format!("{}, parsed before", case.name)
        } else {
            format!("parse + compose + render: {}", case.name)
        };
        let row = Row::new(&work).faster(&format!("{peer}, the fastest"), Some(best / ours), ahead);
        let everybody = [("pre-sized push_str", limit), ("callsheet", ours)].into_iter().chain(peers);
        let taken = |(name, time): (&str, f64)| Taken {
            name: name.into(),
            nanoseconds: time,
            remark: format!("{:.1}× the limit", time / limit),
        };
        report.add(row.at_most("pre-sized push_str", ours / limit, near).contenders(everybody.map(taken)));
    }
    for case in [&one, &thousand] {
        let files = Files::of(case);
        let request = request(case);
        let library = Library::new(&files);
        let recipe = library.recipe(&request).expect("a recipe");
        let mut output = 0;
        let peak = peak_of(|| {
            let composed = library.compose(&request, &recipe).expect("a prompt");
            output = render(&composed.prompt, PromptFormat::Markdown, None).expect("a text").text.len();
            output
        });
        let row = Row::new(&format!("memory: {}", case.name));
        report.add(row.at_most("the size of the output", peak as f64 / output as f64, 1.3));
    }
    growth(report, rounds);
}

/// How the time grows with the number of values: the exponent between 250 and 16,000.
fn growth(report: &mut Report, rounds: usize) {
    let sizes = [250, 1_000, 4_000, 16_000];
    let cases: Vec<Case> = sizes.iter().map(|slots| Case::new("growth", slots * 40, *slots, 0, 20)).collect();
    let worlds: Vec<(Files, Request)> = cases.iter().map(|case| (Files::of(case), request(case))).collect();
    let mut contenders: Vec<Contender<'_>> = worlds
        .iter()
        .map(|(files, request)| {
            let recipe = Library::new(files).recipe(request).expect("a recipe");
            contender("growth", move || {
                let composed = Library::new(files).compose(request, &recipe).expect("a prompt");
                render(&composed.prompt, PromptFormat::Markdown, None).expect("a text").text.len()
            })
        })
        .collect();
    let times = race(&mut contenders, rounds);
    let exponent = (times[3] / times[0]).ln() / (sizes[3] as f64 / sizes[0] as f64).ln();
    let row = Row::new("growth with the number of values, 250 to 16,000");
    report.add(row.exponent("exponent of the time", exponent, 1.15));
}
