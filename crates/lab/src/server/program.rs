//! Third-party servers: finds their programs, and builds the command that starts one with its configuration.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::definition::{Definition, Program};
use super::throttle::Throttle;
use super::{Access, ServerError, ServerSlot};
use fathometer_files::scratch::open_to_all;

/// The address of a program behind another program, in the first or second slot of the host.
pub(super) fn behind_address(slot: ServerSlot) -> SocketAddr {
    let port = match slot {
        ServerSlot::First => 8000,
        ServerSlot::Second => 8001,
    };
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A program that is installed on this machine.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The path of the program.
    pub path: PathBuf,
    /// The folder of the program's modules.
    pub modules: Option<PathBuf>,
    /// The first line of the program's version output.
    pub version: String,
    user: Option<String>,
    group: Option<String>,
    /// The program behind this program.
    behind: Option<Box<(Definition, Installed)>>,
}

/// Looks for a program, and for the program behind it. Returns `None` if one of them is not installed.
pub fn find(program: &Program) -> Option<Installed> {
    let path = program.commands.iter().find_map(|name| on_path(name))?;
    let behind = match &program.behind {
        None => None,
        Some(name) => {
            let definition = Definition::load(name).ok()?;
            let installed = find(definition.program.as_ref()?)?;
            Some(Box::new((definition, installed)))
        }
    };
    let mut version = version(&path, program)?;
    if let Some((_, behind)) = behind.as_deref() {
        version = format!("{version}, before {}", behind.version);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let known = |file: &str| {
        program
            .users
            .iter()
            .find(|user| {
                file.lines()
                    .any(|line| line.split(':').next() == Some(user))
            })
            .cloned()
    };
    Some(Installed {
        path,
        modules: program
            .modules
            .iter()
            .map(PathBuf::from)
            .find(|folder| folder.is_dir()),
        version,
        user: known(&users),
        group: known(&groups),
        behind,
    })
}

fn version(path: &Path, program: &Program) -> Option<String> {
    let output = Command::new(path)
        .args(&program.version)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let output = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let output = String::from_utf8_lossy(&output);
    let line = output.lines().next().unwrap_or("");
    let line = line
        .trim_start_matches("Server version: ")
        .trim_start_matches("nginx version: ");
    // The text after the separator is a slogan or the address of the project.
    let end = line.find(" - ").unwrap_or(line.len());
    Some(line[..end].trim().to_owned())
}

fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    // Servers may be installed in folders that are not in an ordinary user's PATH.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Writes the configuration with which a program serves the folder `root` at an address. Returns the command that
/// starts the program in the foreground. The configuration and the output are in the folder `runtime`. The program
/// closes a connection after `max_requests` requests; `None` means no limit.
pub fn command(
    definition: &Definition,
    program: &Program,
    installed: &Installed,
    address: SocketAddr,
    root: &Path,
    runtime: &Path,
    max_requests: Option<u32>,
) -> Result<Command, ServerError> {
    let throttle = Throttle {
        keep_alive_requests: Some(max_requests.unwrap_or(0)),
        ..Throttle::default()
    };
    let place = Place {
        address,
        root,
        runtime,
        access: Access::Clear,
        behind: behind_address(ServerSlot::First),
    };
    throttled_command(definition, program, installed, place, &throttle)
}

/// The address and the folders of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub address: SocketAddr,
    pub root: &'a Path,
    pub runtime: &'a Path,
    pub access: Access<'a>,
    /// The address of the program behind this program, if there is such a program.
    pub behind: SocketAddr,
}

/// Returns the command that starts a program in the foreground, with limits of its connections.
pub(super) fn throttled_command(
    definition: &Definition,
    program: &Program,
    installed: &Installed,
    place: Place<'_>,
    throttle: &Throttle,
) -> Result<Command, ServerError> {
    let unsupported =
        || (program.versions(place.access.is_tls()).is_empty()).then(|| program.silence());
    if let Some(reason) = program.capabilities.refusal(throttle).or_else(unsupported) {
        return Err(ServerError::Cannot {
            name: definition.name.clone(),
            reason,
        });
    }
    let errors = place.runtime.join("stderr");
    let stderr =
        fs::File::create(&errors).map_err(system(format!("write {}", errors.display())))?;
    let own = Invocation::prepare(definition, program, installed, place, throttle)?;
    let mut command = match installed.behind.as_deref() {
        None => own.command(),
        Some((behind, installed)) => {
            let program = behind.program.as_ref().expect("load checked it");
            let (address, runtime) = (place.behind, place.runtime.join("behind"));
            fs::create_dir(&runtime).map_err(system(format!("create {}", runtime.display())))?;
            // The program in front terminates TLS.
            let place = Place {
                address,
                runtime: &runtime,
                access: Access::Clear,
                ..place
            };
            let throttle = Throttle {
                keep_alive_requests: Some(0),
                ..Throttle::default()
            };
            own.beside(&Invocation::prepare(
                behind, program, installed, place, &throttle,
            )?)
        }
    };
    // A server may run as another user. With the umask of this program, that user could not read the files.
    open_to_all(place.runtime).map_err(system(format!(
        "set the permissions of {}",
        place.runtime.display()
    )))?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr);
    Ok(command)
}

/// A command line and its environment variables.
#[derive(Debug)]
struct Invocation {
    words: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Invocation {
    /// Writes the configuration and returns the command line.
    fn prepare(
        definition: &Definition,
        program: &Program,
        installed: &Installed,
        place: Place<'_>,
        throttle: &Throttle,
    ) -> Result<Invocation, ServerError> {
        let template = with_user_or_without(&definition.template(program)?);
        let mut words = words(program, installed, place, throttle);
        if let Access::Tls(credentials) = place.access {
            let files = credentials
                .write(place.runtime)
                .map_err(system("write the certificate".to_owned()))?;
            words.extend(files.words());
        }
        let config = place.runtime.join("server.conf");
        fs::write(&config, filled(&template, program, place.access, &words))
            .map_err(system(format!("write {}", config.display())))?;
        // Apache requires a file of media types. It is empty, because the configuration lists the relevant types.
        fs::write(place.runtime.join("mime.types"), "")
            .map_err(system("write the media types".to_owned()))?;
        words.push(("config".to_owned(), config.display().to_string()));
        let fill = |text: &String| filled(text, program, place.access, &words);
        let mut invocation = Invocation {
            words: prefix(program, installed),
            environment: program
                .environment
                .iter()
                .map(|(name, value)| (name.clone(), fill(value)))
                .collect(),
        };
        invocation.words.push(installed.path.display().to_string());
        let arguments = program.arguments.iter().map(fill);
        // Omit an argument that is empty after its placeholders are filled in.
        invocation
            .words
            .extend(arguments.filter(|argument| !argument.is_empty()));
        Ok(invocation)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns a command that runs this program with the other program as a child process. Both are stopped together.
    fn beside(&self, other: &Invocation) -> Command {
        let line = |invocation: &Invocation| {
            let set = invocation.environment.iter();
            let mut words: Vec<String> = vec!["env".to_owned()];
            words.extend(set.map(|(name, value)| quoted(&format!("{name}={value}"))));
            words.extend(invocation.words.iter().map(|word| quoted(word)));
            words.join(" ")
        };
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("{} &\nexec {}", line(other), line(self)));
        command
    }
}

/// Removes the user settings from a configuration, if the program cannot switch to another user.
fn with_user_or_without(template: &str) -> String {
    if may_become_others() {
        return template.to_owned();
    }
    let names_user = |line: &&str| line.contains("{user}") || line.contains("{group}");
    let kept: Vec<&str> = template.lines().filter(|line| !names_user(line)).collect();
    kept.join("\n") + "\n"
}

/// Whether a child process can switch to another user: this process must be root, and its user namespace must have
/// other users.
fn may_become_others() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map");
    // This file does not exist in a kernel without user namespaces.
    let has_others = map.map_or(true, |map| has_other_users(&map));
    rustix::process::geteuid().is_root() && has_others
}

/// Whether a user namespace with this `uid_map` has users other than its root. Each line has the first user ID inside,
/// the first outside, and the number of IDs.
fn has_other_users(map: &str) -> bool {
    let lines = map.lines().map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        (numbers.next(), numbers.nth(1))
    });
    let mut users = lines.filter_map(|(first, count)| first?.ok().zip(count?.ok()));
    users.any(|(first, count)| first > 0 || count > 1)
}

/// Returns the command prefix for a program that cannot switch to another user by itself.
fn prefix(program: &Program, installed: &Installed) -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    if !may_become_others() {
        return as_the_only_user();
    }
    let user = installed.user.as_ref().filter(|_| program.started_as_user);
    let Some(user) = user else {
        return Vec::new();
    };
    let Some(setpriv) = on_path("setpriv") else {
        return Vec::new();
    };
    let group = installed.group.as_ref().unwrap_or(user);
    let low_ports = "-all,+net_bind_service";
    [
        setpriv.display().to_string(),
        format!("--reuid={user}"),
        format!("--regid={group}"),
        "--clear-groups".to_owned(),
        format!("--inh-caps={low_ports}"),
        format!("--ambient-caps={low_ports}"),
        format!("--bounding-set={low_ports}"),
    ]
    .into()
}

/// Returns the command prefix that runs a program as the only user of its namespace, with an ID other than root's.
/// Servers that run as root switch to another user, and exit if they cannot. An ordinary user cannot listen on port 80,
/// unless the network namespace permits that to all users.
fn as_the_only_user() -> Vec<String> {
    const OPEN_PORTS: &str = "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start; exec \"$@\"";
    let Some(unshare) = on_path("unshare") else {
        return Vec::new();
    };
    let unshare = unshare.display().to_string();
    let words = ["/bin/sh", "-c", OPEN_PORTS, "sh", &unshare, "--user"];
    let number = |option: &str| format!("--map-{option}={ONLY_USER}");
    let mut prefix: Vec<String> = words.map(str::to_owned).into();
    prefix.extend([number("user"), number("group"), "--".to_owned()]);
    prefix
}

/// The ID of the only user within a server's namespace: the usual ID of the user `nobody`.
const ONLY_USER: u32 = 65_534;

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the placeholders of a configuration with their values.
fn words(
    program: &Program,
    installed: &Installed,
    place: Place<'_>,
    throttle: &Throttle,
) -> Vec<(String, String)> {
    let text_of = |path: &Path| path.display().to_string();
    let modules = installed.modules.as_deref().map(text_of);
    let mut words: Vec<(String, String)> = [
        ("root", text_of(place.root)),
        ("runtime", text_of(place.runtime)),
        ("address", place.address.ip().to_string()),
        ("port", place.address.port().to_string()),
        ("modules", modules.unwrap_or_default()),
        ("user", installed.user.clone().unwrap_or_default()),
        ("group", installed.group.clone().unwrap_or_default()),
        ("behind", place.behind.to_string()),
        ("behind_address", place.behind.ip().to_string()),
        ("behind_port", place.behind.port().to_string()),
    ]
    .map(|(word, value)| (word.to_owned(), value))
    .into();
    words.extend(program.capabilities.words(throttle));
    words
}

/// Fills in the placeholders of a text. Placeholders of the definition are replaced first, because their values may
/// contain other placeholders.
fn filled(text: &str, program: &Program, access: Access<'_>, words: &[(String, String)]) -> String {
    let over_tls = program.tls.as_ref().filter(|_| access.is_tls());
    let over_tls = over_tls.map(|tls| &tls.words).into_iter().flatten();
    let mut text = text.to_owned();
    for (word, value) in over_tls
        .chain(&program.words)
        .chain(words.iter().map(|(word, value)| (word, value)))
    {
        text = text.replace(&format!("{{{word}}}"), value);
    }
    text
}

fn system(doing: String) -> impl FnOnce(std::io::Error) -> ServerError {
    move |error| ServerError::System { doing, error }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Credentials;
    use super::*;
    use crate::data;

    fn anywhere(behind: Option<Box<(Definition, Installed)>>) -> Installed {
        Installed {
            path: "/usr/sbin/program".into(),
            modules: Some("/usr/lib/modules".into()),
            version: "1".to_owned(),
            user: Some("www-data".to_owned()),
            group: Some("www-data".to_owned()),
            behind,
        }
    }

    #[test]
    fn a_namespace_with_one_user_has_no_others() {
        assert!(has_other_users("         0          0 4294967295\n"));
        assert!(has_other_users("0 1000 1\n1 100000 65536\n"));
        assert!(has_other_users("33 1000 1\n"));
        assert!(!has_other_users("         0       1000          1\n"));
        assert!(!has_other_users(""));
        assert!(!has_other_users("x"));
    }

    /// Returns the placeholders in braces that a text still contains.
    fn left(text: &str) -> Vec<&str> {
        let is_word = |word: &&str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        text.split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}'))
            .map(|(word, _)| word)
            .filter(is_word)
            .collect()
    }

    #[test]
    fn every_word_of_every_configuration_is_filled_in() {
        let names = ["www26.w3.org".to_owned()];
        let credentials = Credentials::make(&names, Duration::from_secs(1_700_000_000)).unwrap();
        let mut programs = 0;
        for name in data::names("servers") {
            let definition = Definition::load(name).unwrap();
            let Some(program) = &definition.program else {
                continue;
            };
            programs += 1;
            for access in [Access::Clear, Access::Tls(&credentials)] {
                if program.versions(access.is_tls()).is_empty() {
                    continue;
                }
                let folder = tempfile::tempdir().unwrap();
                let place = Place {
                    address: SocketAddr::from(([10, 77, 0, 2], access.port())),
                    root: Path::new("/srv/site"),
                    runtime: folder.path(),
                    access,
                    behind: behind_address(ServerSlot::First),
                };
                let (installed, throttle) = (anywhere(None), Throttle::default());
                let invocation =
                    Invocation::prepare(&definition, program, &installed, place, &throttle)
                        .unwrap();
                let text = fs::read_to_string(folder.path().join("server.conf")).unwrap();
                let comments = text.lines().filter(|line| !line.trim().starts_with('#'));
                let text: String = comments.collect::<Vec<_>>().join("\n");
                let line = invocation.words.join("\n");
                assert_eq!(left(&text), Vec::<&str>::new(), "{name}: {text}");
                assert_eq!(left(&line), Vec::<&str>::new(), "{name}: {line}");
                assert!((text.clone() + &line).contains("10.77.0.2"), "{name}");
                let has_key = (text + &line).contains("key.pem");
                assert_eq!(has_key, access.is_tls(), "{name}");
            }
        }
        assert!(programs >= 8, "{programs}");
    }

    #[test]
    fn what_a_program_cannot_do_is_said_before_it_is_started() {
        let definition = Definition::load("caddy").unwrap();
        let program = definition.program.as_ref().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            address: SocketAddr::from(([10, 77, 0, 2], 80)),
            root: folder.path(),
            runtime: folder.path(),
            access: Access::Clear,
            behind: behind_address(ServerSlot::First),
        };
        let throttle = Throttle {
            shed_above: Some(16),
            ..Throttle::default()
        };
        let refused =
            throttled_command(&definition, program, &anywhere(None), place, &throttle).unwrap_err();
        assert!(refused.is_inability(), "{refused}");
        assert!(
            refused
                .to_string()
                .starts_with("caddy does not support a requested setting: shed_above: ")
        );
    }

    #[test]
    fn a_shell_takes_a_quoted_word_as_it_is() {
        let word = "it's a $HOME `date` \"word\"\\";
        let output = Command::new("/bin/sh")
            .args(["-c", &format!("printf %s {}", quoted(word))])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
    }
}
