//! The forms of actions: a token that only pages of this server have, and an id that is accepted once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use callsheet::error::Result;
use callsheet::random::random_key;
use callsheet_core::record::{Digest, sha256};

use crate::base64::to_base64url;

/// The most actions of one server. Each leaves its id behind, so that none is done twice.
const MOST_ACTIONS: usize = 65_536;

/// Why an action is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionRefusal {
    /// The form is not of a page of this session.
    Form,
    /// The action was done before, or the server has done too many.
    Replayed,
}

/// The fields of the forms of one page: the first action that a browser sends from it is accepted.
#[derive(Clone, Debug)]
pub(crate) struct ActionForm {
    /// The token of the session.
    pub(crate) token: String,
    /// The id of the action.
    pub(crate) id: String,
}

/// The token of the forms and the ids of the actions that were done.
#[derive(Debug)]
pub(crate) struct ActionForms {
    token: String,
    done: Mutex<BTreeSet<Digest>>,
}

impl ActionForms {
    /// Creates the forms of a session, bound to its cookie.
    pub(crate) fn new(cookie: &str) -> Result<Self> {
        let token = to_base64url(&sha256(&[b"form", &random_key()?, cookie.as_bytes()]).0);
        Ok(Self { token, done: Mutex::default() })
    }

    /// Returns the token of the forms.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns an id for one action.
    pub(crate) fn new_id() -> Result<String> {
        Ok(to_base64url(&random_key()?))
    }

    /// Accepts the form of an action once.
    pub(crate) fn accept(&self, token: &str, id: &str) -> Result<(), ActionRefusal> {
        // Digests are compared: the time does not depend on the number of equal characters.
        if sha256(&[token.as_bytes()]) != sha256(&[self.token.as_bytes()]) || id.len() != 43 {
            return Err(ActionRefusal::Form);
        }
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match done.len() < MOST_ACTIONS && done.insert(sha256(&[id.as_bytes()])) {
            true => Ok(()),
            false => Err(ActionRefusal::Replayed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_is_accepted_once() {
        let forms = ActionForms::new("cookie").unwrap();
        let (token, id) = (forms.token().to_owned(), ActionForms::new_id().unwrap());
        assert_eq!(forms.accept("other", &id), Err(ActionRefusal::Form));
        assert_eq!(forms.accept(&token, "short"), Err(ActionRefusal::Form));
        assert_eq!(forms.accept(&token, &id), Ok(()));
        assert_eq!(forms.accept(&token, &id), Err(ActionRefusal::Replayed));
        assert_ne!(token, ActionForms::new("cookie").unwrap().token());
    }
}
