//! Composes real prompts, with everything that is recorded of them.

use callsheet_core::record::{Id, RecordBundle, Run, build_record};
use callsheet_core::render::render;
use callsheet_core::request::{RequestDocument, Task};
use callsheet_core::{MemorySources, Request, SourceRecorder, SourceRoot, compose};
use callsheet_store::{new_id, now};

/// Returns the shipped files and those of a project.
pub(crate) fn project(files: &[(&str, &str)]) -> MemorySources {
    let mut sources = MemorySources::with_builtin();
    for (path, text) in files {
        sources.put(SourceRoot::Project, path, *text).unwrap();
    }
    sources
}

/// Returns a request to plan a task, with the files of a project as documents.
pub(crate) fn request(task: &str, project: &MemorySources) -> Request {
    let documents = project
        .iter()
        .map(|(id, _)| RequestDocument { path: Some(id.path().into()), ..RequestDocument::default() });
    Request {
        recipe: Some("unified".into()),
        agent: Some("claude".into()),
        phase: Some("plan".into()),
        instructions: Some(format!("Do {task}.").as_str().into()),
        task: Some(Task { id: Some(task.into()), ..Task::default() }),
        documents: documents.collect(),
        ..Request::default()
    }
}

pub(crate) fn record_bundle(task: &str, files: &[(&str, &str)]) -> RecordBundle {
    record_bundle_after(task, files, None)
}

pub(crate) fn record_bundle_after(task: &str, files: &[(&str, &str)], parent: Option<Id>) -> RecordBundle {
    let project = project(files);
    let request = request(task, &project);
    let sources = SourceRecorder::new(project);
    let composed = compose(&request, &sources).unwrap();
    let rendered = render(&composed.prompt, composed.prompt.format, None).unwrap();
    let run = Run::new(new_id().unwrap(), &now(), &request, &composed.prompt.recipe).unwrap();
    let run = run.with_parent(parent);
    build_record(run, &request, &sources.finish(), (&composed, &rendered, None), &composed.diagnostics)
        .unwrap()
}

/// Returns the text of a composed prompt.
pub(crate) fn prompt_text(task: &str, files: &[(&str, &str)]) -> String {
    let project = project(files);
    let composed = compose(&request(task, &project), &project).unwrap();
    render(&composed.prompt, composed.prompt.format, None).unwrap().text
}
