//! `fathometer cluster kubernetes`: prints a load test or a study as manifests for `kubectl apply`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, value_parser};
use fathometer_cluster::kubernetes::{LoadJob, Name, Quantity, Secret, StudyJob};

use super::array::{has_option, is_study, reserved_option};
use super::check_command;
use crate::command::arguments::some_time;
use crate::command::{Failure, usage};

/// Largest number of pods of an Indexed Job that may run at once, for any number of completions (Kubernetes'
/// documentation, Job patterns with an index per pod).
const MOST_RANKS: u32 = 10_000;

/// Arguments of `cluster kubernetes`.
#[derive(Debug, Args)]
#[command(after_help = "\
For a load test: prints a headless Service and an Indexed Job with one pod for each rank. The Job succeeds if rank 0 \
succeeds. A failed pod is not restarted, because it would join a running test. The comments in the output are the \
commands that create the ranks' secret, show the result, and remove the Job.

For a study: prints an Indexed Job. Each pod measures a share of the replicates and writes its run to the volume of \
--claim; a node runs one pod at a time. With --merge: prints the Job that merges the runs after all shares are complete.

Examples:
  fathometer cluster kubernetes --ranks 4 --image REGISTRY/fathometer:0.2 -- load http://shop:8080/ --rate 40000 -d 60s
  fathometer cluster kubernetes --ranks 2 --image I --with-secret -- load http://shop/ | kubectl apply -f -
  fathometer cluster kubernetes --ranks 3 --image I --claim runs -- study nielsen97 --full | kubectl apply -f -
  fathometer cluster kubernetes --ranks 3 --image I --claim runs --merge -- study nielsen97 | kubectl apply -f -")]
pub(super) struct KubernetesArguments {
    /// Number of ranks that share the load or the study, each in its own pod
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    ranks: u32,
    /// Container image, whose entry point is fathometer
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: String,
    /// Name of the Job, and of its Service or its runs
    #[arg(long, value_name = "NAME", default_value = "fathometer")]
    name: Name,
    /// Namespace [default: the namespace of kubectl's context]
    #[arg(long, value_name = "NAME")]
    namespace: Option<Name>,
    /// CPU request of each rank; there is no CPU limit, because throttling would pause a rank while it measures
    #[arg(long, value_name = "AMOUNT", default_value = "1")]
    cpu: Quantity,
    /// Memory request of each rank; for a load test also its memory limit
    #[arg(long, value_name = "AMOUNT", default_value = "512Mi")]
    memory: Quantity,
    /// Time limit of the Job: 90s, 10m, 2h [default: none]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    time: Option<Duration>,
    /// Port on which rank 0 listens for the other ranks
    #[arg(
        long, value_name = "PORT", default_value_t = 7420, value_parser = value_parser!(u16).range(1024..),
        conflicts_with = "claim"
    )]
    port: u16,
    /// Also print a new secret for the ranks, instead of the command that creates one
    #[arg(long, conflicts_with = "claim")]
    with_secret: bool,
    /// PersistentVolumeClaim of the volume for the runs of a study; all nodes must be able to write to it
    /// (ReadWriteMany)
    #[arg(long, value_name = "NAME")]
    claim: Option<Name>,
    /// Print the Job that merges the runs of a study
    #[arg(long, requires = "claim")]
    merge: bool,
    /// The fathometer command that each rank runs, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn image(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@".contains(&byte);
    match !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => {
            Err("write the name of an image, as in registry.example/fathometer:0.2".to_owned())
        }
    }
}

/// Prints the manifests.
pub(super) fn run(arguments: &KubernetesArguments) -> Result<ExitCode, Failure> {
    check_command(&arguments.command)?;
    if !arguments.name.fits(arguments.ranks) {
        return Err(usage(format!(
            "the name {} is too long: with a rank's number appended, it has more than 63 characters",
            arguments.name
        )));
    }
    let words: Option<Vec<String>> = arguments
        .command
        .iter()
        .map(|word| word.to_str().map(str::to_owned))
        .collect();
    let Some(words) = words else {
        return Err(usage(
            "an argument of the command is not UTF-8, and a manifest can contain only UTF-8",
        ));
    };
    let words = &words[..];
    if is_study(&arguments.command) {
        print!("{}", study(arguments, words)?);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.claim.is_some() {
        return Err(usage(
            "--claim is only for a study: write -- study NAME, or omit --claim",
        ));
    }
    let secret = arguments
        .with_secret
        .then(fathometer_ranks::secret::random_text)
        .transpose()?;
    let job = LoadJob {
        name: &arguments.name,
        namespace: arguments.namespace.as_ref(),
        image: &arguments.image,
        ranks: arguments.ranks(),
        port: arguments.port,
        cpu: &arguments.cpu,
        memory: &arguments.memory,
        deadline_s: arguments.deadline_s(),
        secret: secret
            .as_deref()
            .map_or(Secret::Referenced, Secret::Included),
        arguments: words,
    };
    print!("{}", job.to_yaml());
    Ok(ExitCode::SUCCESS)
}

/// Builds the manifest of a study, or of the Job that merges its runs.
fn study(arguments: &KubernetesArguments, words: &[String]) -> Result<String, Failure> {
    if let Some(name) = reserved_option(&arguments.command) {
        return Err(usage(format!(
            "{name} of a study cannot be set here: the Job sets the rank and the run folder of each pod (see --claim)"
        )));
    }
    let Some(claim) = &arguments.claim else {
        return Err(usage(
            "the runs of a study need a volume that outlives its pods: name a PersistentVolumeClaim with --claim NAME",
        ));
    };
    let job = StudyJob {
        name: &arguments.name,
        namespace: arguments.namespace.as_ref(),
        image: &arguments.image,
        ranks: arguments.ranks(),
        claim,
        cpu: &arguments.cpu,
        memory: &arguments.memory,
        deadline_s: arguments.deadline_s(),
        arguments: words,
    };
    if !job.has_names() {
        return Err(usage(format!(
            "the name {} is too long: with -merge appended, it has more than 63 characters",
            arguments.name
        )));
    }
    let options = ["--json", "--strict"];
    let options = options.map(|option| has_option(&arguments.command, option).then_some(option));
    let options: Vec<&str> = options.into_iter().flatten().collect();
    Ok(match arguments.merge {
        true => job.merge_to_yaml(&options),
        false => job.to_yaml(),
    })
}

impl KubernetesArguments {
    fn ranks(&self) -> NonZeroU32 {
        NonZeroU32::new(self.ranks).unwrap_or(NonZeroU32::MIN)
    }

    fn deadline_s(&self) -> Option<u64> {
        self.time.map(|time| time.as_secs().max(1))
    }
}
