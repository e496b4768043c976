//! Derives the name of a project from the URL of its repository.

use alloc::string::{String, ToString};

/// Maximum length of a project name in bytes.
pub const MOST_PROJECT_NAME: usize = 300;

/// Reduces the URL of a repository to `host/path`, without scheme, credentials, usual port, query and suffix.
/// Two clones by different protocols have the same name. Returns `None` if nothing is left.
pub fn project_from_url(url: &str) -> Option<String> {
    let url = url.trim();
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match url.split_once("://") {
        Some((scheme, rest)) if !scheme.eq_ignore_ascii_case("file") => {
            rest.split_once('/').unwrap_or((rest, ""))
        }
        Some((_, path)) => ("", path),
        // `user@host:path`; a colon behind a slash belongs to a path.
        None => match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => match url.rsplit_once('@') {
                // A password may contain colons.
                Some((user, rest)) if !user.contains('/') => rest.split_once(':').unwrap_or((rest, "")),
                _ => (host, path),
            },
            _ => ("", url),
        },
    };
    // A password may contain any character, including `@`.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.rsplit_once(':') {
        Some((name, "22" | "80" | "443" | "9418")) => name,
        _ => host,
    };
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    let name = match host {
        "" => path.to_string(),
        host => [&host.to_ascii_lowercase(), path.trim_start_matches('/')].join("/"),
    };
    let name = name.trim_end_matches('/');
    is_project_name(name).then(|| name.to_string())
}

/// Checks whether a text can be the name of a project: one readable line.
pub fn is_project_name(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= MOST_PROJECT_NAME && !name.chars().any(char::is_control)
}
