//! The manifests of a study: an Indexed Job, in which each pod measures a share of the replicates, and a Job that
//! merges the runs.
//!
//! - **Shares are independent of each other.** Each pod starts as soon as a node is free. The Job needs no Service and
//!   no secret. The name of a share's run follows from its index.
//! - **A failed share is not restarted** (`backoffLimitPerIndex: 0`). `study --resume` resumes its run.
//! - **The pods are privileged.** A study creates network namespaces, TUN devices and control groups.
//! - **Memory is requested and not limited.** A memory limit of the pod would also limit the servers under test and
//!   their page cache.

use std::num::NonZeroU32;

use super::names::{Name, Quantity};
use super::parts::{job_label, literal, metadata, mount, temporary_volume, variable};
use super::yaml::{Node, text};

/// The path at which the pods mount the volume of the runs.
const RUNS: &str = "/runs";

/// The values of the manifests.
#[derive(Debug, Clone)]
pub struct StudyJob<'a> {
    /// Name of the Job, and prefix of the names of its runs.
    pub name: &'a Name,
    /// The namespace, instead of the namespace of `kubectl`'s context.
    pub namespace: Option<&'a Name>,
    /// The container image, whose entry point is `fathometer`.
    pub image: &'a str,
    /// Number of shares.
    pub ranks: NonZeroU32,
    /// The PersistentVolumeClaim of the volume for all runs.
    pub claim: &'a Name,
    /// CPU request of each share.
    pub cpu: &'a Quantity,
    /// Memory request of each share.
    pub memory: &'a Quantity,
    /// Time limit of the Job, in seconds.
    pub deadline_s: Option<u64>,
    /// The arguments of `fathometer`, without the folder of the run.
    pub arguments: &'a [String],
}

impl StudyJob<'_> {
    /// Returns the Indexed Job of the shares as a YAML document. Its comments explain how to use it.
    pub fn to_yaml(&self) -> String {
        let (name, ranks) = (self.name, self.ranks);
        let namespace = self.namespace_option();
        let comment = format!(
            "# A study in {ranks} shares, by `fathometer cluster kubernetes`.\n\
             # Start it: kubectl apply -f FILE\n\
             # The volume of the claim {claim} must be one that all nodes can write to (ReadWriteMany). Share I is the run\n\
             # {name}-I on it.\n\
             # Follow a share, here the first:\n\
             #     kubectl logs -f -l batch.kubernetes.io/job-name={name},batch.kubernetes.io/job-completion-index=0{namespace}\n\
             # A share with an exit code other than 0 has failed. Code 3 is INVALID; such a run can be merged. Failed shares:\n\
             #     kubectl get job {name} -o jsonpath='{{.status.failedIndexes}}'{namespace}\n\
             # When all shares have ended, merge their runs: the same command with --merge prints the Job.\n\
             # Remove the Job, without the runs: kubectl delete job {name}{namespace}\n",
            claim = self.claim,
        );
        format!("{comment}---\n{}", self.shares().to_document())
    }

    /// Returns the Job that merges the runs of all shares. It must be started after all shares have exited. `options`
    /// are options of `merge`.
    pub fn merge_to_yaml(&self, options: &[&str]) -> String {
        let name = self.merge_name();
        let namespace = self.namespace_option();
        let comment = format!(
            "# Merges the runs of the study {study}, by `fathometer cluster kubernetes --merge`.\n\
             # Start it when all shares have ended: kubectl apply -f FILE\n\
             # The merged run is {study} on the volume of the claim {claim}. The result is the output of the pod:\n\
             #     kubectl logs -f job/{name}{namespace}\n\
             # If the run of a share is missing, remove it from the arguments below; the merged run reports this.\n\
             # Remove it: kubectl delete job {name}{namespace}\n",
            study = self.name,
            claim = self.claim,
        );
        format!("{comment}---\n{}", self.merge(&name, options).to_document())
    }

    fn namespace_option(&self) -> String {
        self.namespace
            .map(|name| format!(" -n {name}"))
            .unwrap_or_default()
    }

    /// Whether the names of both Jobs are DNS labels, as Kubernetes requires.
    pub fn has_names(&self) -> bool {
        self.name.fits(self.ranks.get()) && self.merge_name().parse::<Name>().is_ok()
    }

    fn merge_name(&self) -> String {
        format!("{}-merge", self.name)
    }

    fn shares(&self) -> Node {
        let ranks = Node::Number(self.ranks.get().into());
        let mut spec = vec![
            ("completionMode", text("Indexed")),
            ("completions", ranks.clone()),
            ("parallelism", ranks),
            ("backoffLimitPerIndex", Node::Number(0)),
        ];
        spec.extend(
            self.deadline_s
                .map(|time| ("activeDeadlineSeconds", Node::Number(time))),
        );
        let output = format!("{RUNS}/{}-$(JOB_COMPLETION_INDEX)", self.name);
        let arguments = self.arguments.iter().map(|argument| literal(argument));
        let arguments = arguments.chain([text("--output"), text(&output)]).collect();
        let requests = Node::Map(vec![("cpu", text(self.cpu)), ("memory", text(self.memory))]);
        let container = Node::Map(vec![
            ("name", text("fathometer")),
            ("image", text(self.image)),
            ("args", Node::List(arguments)),
            (
                "env",
                Node::List(vec![variable("FATHOMETER_RANKS", &self.ranks.to_string())]),
            ),
            ("resources", Node::Map(vec![("requests", requests)])),
            (
                "securityContext",
                Node::Map(vec![
                    ("privileged", Node::Bool(true)),
                    ("runAsUser", Node::Number(0)),
                ]),
            ),
            ("volumeMounts", self.mounts()),
        ]);
        // Two shares on one machine at the same time would disturb each other's measurements.
        let apart = Node::Map(vec![
            ("topologyKey", text("kubernetes.io/hostname")),
            (
                "labelSelector",
                Node::Map(vec![("matchLabels", job_label(self.name))]),
            ),
        ]);
        let apart = Node::Map(vec![(
            "requiredDuringSchedulingIgnoredDuringExecution",
            Node::List(vec![apart]),
        )]);
        let affinity = ("affinity", Node::Map(vec![("podAntiAffinity", apart)]));
        spec.push(("template", self.template(container, Some(affinity))));
        self.job(self.name, spec)
    }

    fn merge(&self, name: &str, options: &[&str]) -> Node {
        let run = |suffix: &str| text(&format!("{RUNS}/{}{suffix}", self.name));
        let mut arguments = vec![text("merge")];
        arguments.extend((0..self.ranks.get()).map(|rank| run(&format!("-{rank}"))));
        arguments.extend([text("--output"), run("")]);
        arguments.extend(options.iter().map(|option| text(*option)));
        let container = Node::Map(vec![
            ("name", text("fathometer")),
            ("image", text(self.image)),
            ("args", Node::List(arguments)),
            (
                "securityContext",
                Node::Map(vec![
                    // The runs are owned by root.
                    ("runAsUser", Node::Number(0)),
                    ("allowPrivilegeEscalation", Node::Bool(false)),
                ]),
            ),
            ("volumeMounts", self.mounts()),
        ]);
        let spec = vec![
            ("backoffLimit", Node::Number(0)),
            ("template", self.template(container, None)),
        ];
        self.job(name, spec)
    }

    fn job(&self, name: &(impl ToString + ?Sized), spec: Vec<(&'static str, Node)>) -> Node {
        Node::Map(vec![
            ("apiVersion", text("batch/v1")),
            ("kind", text("Job")),
            ("metadata", metadata(name, self.namespace)),
            ("spec", Node::Map(spec)),
        ])
    }

    fn template(&self, container: Node, affinity: Option<(&'static str, Node)>) -> Node {
        let claim = Node::Map(vec![("claimName", text(self.claim))]);
        let runs = Node::Map(vec![
            ("name", text("runs")),
            ("persistentVolumeClaim", claim),
        ]);
        let mut pod = vec![
            ("restartPolicy", text("Never")),
            ("automountServiceAccountToken", Node::Bool(false)),
            // Without the address variables of all services: their names could collide with fathometer's variables.
            ("enableServiceLinks", Node::Bool(false)),
        ];
        pod.extend(affinity);
        pod.extend([
            ("containers", Node::List(vec![container])),
            ("volumes", Node::List(vec![temporary_volume(), runs])),
        ]);
        Node::Map(vec![("spec", Node::Map(pod))])
    }

    fn mounts(&self) -> Node {
        Node::List(vec![mount("tmp", "/tmp"), mount("runs", RUNS)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T>(make: impl Fn(&StudyJob<'_>) -> T) -> T {
        let arguments = ["study", "nielsen97", "--full", "--note", "$5"].map(str::to_owned);
        make(&StudyJob {
            name: &"night".parse().unwrap(),
            namespace: Some(&"tests".parse().unwrap()),
            image: "registry.example/fathometer-study:0.2",
            ranks: NonZeroU32::new(3).unwrap(),
            claim: &"runs-claim".parse().unwrap(),
            cpu: &"2".parse().unwrap(),
            memory: &"2Gi".parse().unwrap(),
            deadline_s: Some(7200),
            arguments: &arguments,
        })
    }

    #[test]
    fn the_shares_are_an_indexed_job_with_a_run_for_each_index() {
        insta::assert_snapshot!(of(|job| job.to_yaml()));
    }

    #[test]
    fn the_runs_of_all_shares_are_merged_by_a_job_of_its_own() {
        insta::assert_snapshot!(of(|job| job.merge_to_yaml(&["--strict"])));
    }
}
