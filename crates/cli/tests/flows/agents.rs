//! Flows with the real CLIs on the mock model.
