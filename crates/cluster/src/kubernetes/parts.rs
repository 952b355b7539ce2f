//! Parts that several manifests share.

use super::names::Name;
use super::yaml::{Node, text};

/// Returns an object's metadata: name, namespace and label.
pub(super) fn metadata(name: &(impl ToString + ?Sized), namespace: Option<&Name>) -> Node {
    let mut metadata = vec![("name", text(name))];
    metadata.extend(namespace.map(|namespace| ("namespace", text(namespace))));
    let labels = vec![("app.kubernetes.io/name", text("fathometer"))];
    metadata.push(("labels", Node::Map(labels)));
    Node::Map(metadata)
}

/// Returns the label that a Job's controller gives to its pods.
pub(super) fn job_label(job: &(impl ToString + ?Sized)) -> Node {
    Node::Map(vec![("batch.kubernetes.io/job-name", text(job))])
}

/// Escapes an argument of a container: Kubernetes replaces `$(NAME)`, and `$$` by `$` (API reference, Container, args).
pub(super) fn literal(argument: &str) -> Node {
    text(&argument.replace('$', "$$"))
}

/// Returns a variable of a container's environment.
pub(super) fn variable(name: &str, value: &str) -> Node {
    Node::Map(vec![("name", text(name)), ("value", text(value))])
}

/// Returns an empty volume for temporary files, because the image has no folder for them.
pub(super) fn temporary_volume() -> Node {
    Node::Map(vec![("name", text("tmp")), ("emptyDir", Node::Map(vec![]))])
}

/// Returns the mount of a volume at a path of the container.
pub(super) fn mount(volume: &str, path: &str) -> Node {
    Node::Map(vec![("name", text(volume)), ("mountPath", text(path))])
}
