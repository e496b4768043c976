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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_repository_share_name() {
        for url in [
            "https://example.org/team/shop.git",
            "https://example.org/team/shop/",
            "http://EXAMPLE.org:80/team/shop.git",
            "https://me:secret@example.org/team/shop.git",
            "https://me:se@cr:et@example.org:443/team/shop.git/",
            "https://token@example.org/team/shop?access_token=secret#x",
            "ssh://git@example.org:22/team/shop.git",
            "git@example.org:team/shop.git",
            "me:secret@example.org:team/shop.git",
            "example.org:team/shop",
            "git://example.org/team/shop.git",
            " https://example.org//team/shop.git\n",
        ] {
            assert_eq!(project_from_url(url).as_deref(), Some("example.org/team/shop"), "{url}");
        }
    }

    #[test]
    fn other_urls_keep_distinct_names() {
        let cases = [
            ("/srv/git/shop.git", Some("/srv/git/shop")),
            ("file:///srv/git/shop.git", Some("/srv/git/shop")),
            ("../shop", Some("../shop")),
            ("https://example.org:8443/shop", Some("example.org:8443/shop")),
            ("/srv/a:b/shop", Some("/srv/a:b/shop")),
            ("https://", None),
            ("", None),
            ("a\u{7}b", None),
        ];
        for (url, name) in cases {
            assert_eq!(project_from_url(url).as_deref(), name, "{url}");
        }
    }
}
