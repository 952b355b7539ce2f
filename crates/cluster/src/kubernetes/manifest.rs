//! The manifest of a load test: a headless Service, an Indexed Job and, on request, a Secret.
//!
//! - **A failed rank is never restarted** (`backoffLimitPerIndex: 0`): a new process would join a running test under
//!   an old index. The other ranks continue, so that rank 0 reports the loss; with `backoffLimit: 0` Kubernetes would
//!   stop them.
//! - **The Job succeeds if and only if rank 0 succeeds** (`successPolicy`): rank 0 has the result of the whole test.
//! - **Rank 0 can be found** before it is ready: pods of an Indexed Job have the host name `JOB-INDEX`, and a
//!   headless Service with `publishNotReadyAddresses` gives this name an address.

use std::num::NonZeroU32;

use super::names::{Name, Quantity};
use super::parts::{job_label, literal, metadata, mount, temporary_volume, variable};
use super::yaml::{Node, text};

/// The key of the ranks' secret.
const SECRET_KEY: &str = "secret";

/// The numeric user ID of the ranks. It has no user name, because the image has no list of users.
const USER: u64 = 65_532;

/// The source of the ranks' shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secret<'a> {
    /// A Secret that the user creates. A comment in the manifest states the command.
    Referenced,
    /// A new secret that is part of the manifest.
    Included(&'a str),
}

/// The values of a manifest.
#[derive(Debug, Clone)]
pub struct LoadJob<'a> {
    /// Name of the Job and of its Service.
    pub name: &'a Name,
    /// The namespace, instead of the namespace of `kubectl`'s context.
    pub namespace: Option<&'a Name>,
    /// The container image, whose entry point is `fathometer`.
    pub image: &'a str,
    /// Number of ranks.
    pub ranks: NonZeroU32,
    /// The port on which rank 0 listens for the other ranks.
    pub port: u16,
    /// CPU request of each rank. There is no CPU limit: throttling would stop a rank in the middle of its work.
    pub cpu: &'a Quantity,
    /// Memory of each rank, as request and limit.
    pub memory: &'a Quantity,
    /// Time limit of the Job, in seconds.
    pub deadline_s: Option<u64>,
    /// The ranks' secret.
    pub secret: Secret<'a>,
    /// The arguments of `fathometer`.
    pub arguments: &'a [String],
}

impl LoadJob<'_> {
    /// Returns the manifest as a stream of YAML documents. Its comments explain how to use it.
    pub fn to_yaml(&self) -> String {
        let mut documents = Vec::new();
        if let Secret::Included(secret) = self.secret {
            documents.push(self.secret(secret));
        }
        documents.push(self.service());
        documents.push(self.job());
        let documents: Vec<String> = documents.iter().map(Node::to_document).collect();
        format!("{}---\n{}", self.comment(), documents.join("---\n"))
    }

    fn comment(&self) -> String {
        let namespace = self
            .namespace
            .map(|name| format!(" -n {name}"))
            .unwrap_or_default();
        let rank_0 = format!(
            "-l batch.kubernetes.io/job-name={},batch.kubernetes.io/job-completion-index=0{namespace}",
            self.name
        );
        let mut comment = format!(
            "# A load test of {} ranks, by `fathometer cluster kubernetes`.\n",
            self.ranks
        );
        if self.secret == Secret::Referenced {
            comment += &format!(
                "# Create the secret of the ranks once:\n\
                 #     head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' |\n\
                 #         kubectl create secret generic {} --from-file={SECRET_KEY}=/dev/stdin{namespace}\n",
                self.secret_name()
            );
        }
        comment
            + &format!(
                "# Start the test: kubectl apply -f FILE\n\
                 # The result is the output of rank 0, and its exit code:\n\
                 #     kubectl logs -f {rank_0}\n\
                 #     kubectl get pods {rank_0} \\\n\
                 #         -o jsonpath='{{.items[0].status.containerStatuses[0].state.terminated.exitCode}}'\n\
                 # Remove it before the next test: kubectl delete job,service {}{namespace}\n",
                self.name
            )
    }

    fn secret_name(&self) -> String {
        format!("{}-secret", self.name)
    }

    fn metadata(&self, name: &(impl ToString + ?Sized)) -> Node {
        metadata(name, self.namespace)
    }

    fn secret(&self, secret: &str) -> Node {
        Node::Map(vec![
            ("apiVersion", text("v1")),
            ("kind", text("Secret")),
            ("metadata", self.metadata(&self.secret_name())),
            ("type", text("Opaque")),
            ("stringData", Node::Map(vec![(SECRET_KEY, text(secret))])),
        ])
    }

    fn service(&self) -> Node {
        let port = Node::Map(vec![
            ("name", text("rendezvous")),
            ("port", Node::Number(self.port.into())),
        ]);
        Node::Map(vec![
            ("apiVersion", text("v1")),
            ("kind", text("Service")),
            ("metadata", self.metadata(self.name)),
            (
                "spec",
                Node::Map(vec![
                    // The Service needs no cluster IP address, because each pod has its own name.
                    ("clusterIP", text("None")),
                    ("publishNotReadyAddresses", Node::Bool(true)),
                    ("selector", job_label(self.name)),
                    ("ports", Node::List(vec![port])),
                ]),
            ),
        ])
    }

    fn job(&self) -> Node {
        let ranks = Node::Number(self.ranks.get().into());
        let rank_0 = Node::Map(vec![("succeededIndexes", text("0"))]);
        let mut spec = vec![
            ("completionMode", text("Indexed")),
            ("completions", ranks.clone()),
            ("parallelism", ranks),
            ("backoffLimitPerIndex", Node::Number(0)),
            (
                "successPolicy",
                Node::Map(vec![("rules", Node::List(vec![rank_0]))]),
            ),
        ];
        spec.extend(
            self.deadline_s
                .map(|time| ("activeDeadlineSeconds", Node::Number(time))),
        );
        spec.push(("template", Node::Map(vec![("spec", self.pod())])));
        Node::Map(vec![
            ("apiVersion", text("batch/v1")),
            ("kind", text("Job")),
            ("metadata", self.metadata(self.name)),
            ("spec", Node::Map(spec)),
        ])
    }

    fn pod(&self) -> Node {
        // Ranks on one machine would compete for its processors, so the pods are spread over the machines.
        let spread = Node::Map(vec![
            ("maxSkew", Node::Number(1)),
            ("topologyKey", text("kubernetes.io/hostname")),
            ("whenUnsatisfiable", text("ScheduleAnyway")),
            (
                "labelSelector",
                Node::Map(vec![("matchLabels", job_label(self.name))]),
            ),
        ]);
        Node::Map(vec![
            ("restartPolicy", text("Never")),
            ("subdomain", text(self.name)),
            ("automountServiceAccountToken", Node::Bool(false)),
            // Without the address variables of all services: their names could collide with fathometer's variables.
            ("enableServiceLinks", Node::Bool(false)),
            ("topologySpreadConstraints", Node::List(vec![spread])),
            (
                "securityContext",
                Node::Map(vec![
                    ("runAsNonRoot", Node::Bool(true)),
                    ("runAsUser", Node::Number(USER)),
                    ("runAsGroup", Node::Number(USER)),
                    (
                        "seccompProfile",
                        Node::Map(vec![("type", text("RuntimeDefault"))]),
                    ),
                ]),
            ),
            ("containers", Node::List(vec![self.container()])),
            ("volumes", Node::List(vec![temporary_volume()])),
        ])
    }

    fn container(&self) -> Node {
        let reference = Node::Map(vec![
            ("name", text(&self.secret_name())),
            ("key", text(SECRET_KEY)),
        ]);
        let secret = Node::Map(vec![
            ("name", text("FATHOMETER_SECRET")),
            ("valueFrom", Node::Map(vec![("secretKeyRef", reference)])),
        ]);
        let rendezvous = format!("{name}-0.{name}:{}", self.port, name = self.name);
        let arguments = self.arguments.iter().map(|argument| literal(argument));
        let amount = |cpu: Option<&Quantity>| {
            let cpu = cpu.map(|cpu| ("cpu", text(cpu)));
            Node::Map(
                cpu.into_iter()
                    .chain([("memory", text(self.memory))])
                    .collect(),
            )
        };
        let port = Node::Map(vec![
            ("name", text("rendezvous")),
            ("containerPort", Node::Number(self.port.into())),
        ]);
        let no_rights = Node::Map(vec![("drop", Node::List(vec![text("ALL")]))]);
        Node::Map(vec![
            ("name", text("fathometer")),
            ("image", text(self.image)),
            ("args", Node::List(arguments.collect())),
            (
                "env",
                Node::List(vec![
                    variable("FATHOMETER_RANKS", &self.ranks.to_string()),
                    variable("FATHOMETER_RENDEZVOUS", &rendezvous),
                    secret,
                ]),
            ),
            ("ports", Node::List(vec![port])),
            (
                "resources",
                Node::Map(vec![
                    ("requests", amount(Some(self.cpu))),
                    ("limits", amount(None)),
                ]),
            ),
            (
                "securityContext",
                Node::Map(vec![
                    ("allowPrivilegeEscalation", Node::Bool(false)),
                    ("capabilities", no_rights),
                ]),
            ),
            ("volumeMounts", Node::List(vec![mount("tmp", "/tmp")])),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(secret: Secret<'_>, arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        LoadJob {
            name: &"checkout".parse().unwrap(),
            namespace: Some(&"tests".parse().unwrap()),
            image: "registry.example/fathometer:0.2",
            ranks: NonZeroU32::new(4).unwrap(),
            port: 7420,
            cpu: &"2".parse().unwrap(),
            memory: &"512Mi".parse().unwrap(),
            deadline_s: Some(600),
            secret,
            arguments: &arguments,
        }
        .to_yaml()
    }

    #[test]
    fn a_manifest_that_refers_to_a_secret() {
        let arguments = ["load", "http://shop:8080/", "-H", "X: $(HOME) $$ it's"];
        insta::assert_snapshot!(manifest(Secret::Referenced, &arguments));
    }

    #[test]
    fn a_secret_is_in_the_manifest_only_if_it_was_made_for_it() {
        let with = manifest(Secret::Included("0123abcd"), &["load", "http://shop/"]);
        let (_, documents) = with.split_once("---\n").unwrap();
        let (secret, rest) = documents.split_once("---\n").unwrap();
        insta::assert_snapshot!(secret);
        assert!(!rest.contains("0123abcd") && !with.contains("create secret"));
        let without = manifest(Secret::Referenced, &["load", "http://shop/"]);
        assert_eq!(without.split_once("---\n").unwrap().1, rest);
    }
}
