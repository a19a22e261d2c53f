//! One memory budget for the whole process, checked before memory is allocated.
//!
//! Memory that is kept for a while is [reserved](reserve), and a [`Reservation`] gives its share back when dropped:
//! work on several threads, or for several users of a service, is counted together. A request beyond the limit is an
//! error that says how much is needed, for what, and what would fit. Where the operating system limits the address
//! space (`ulimit -v`), that limit counts as well: an allocation beyond it would abort the process.

mod address_space;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use address_space::Shortage;

/// The share of the available memory that is used by default.
const DEFAULT_SHARE: f64 = 0.8;

/// A limit set by the user, in bytes; zero means none.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// The memory reserved now, in bytes.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Sets the limit in bytes for the whole process (`None`: back to 80 % of the memory available at start-up).
pub fn set_limit(bytes: Option<u64>) {
    LIMIT.store(bytes.unwrap_or(0), Ordering::Relaxed);
}

/// The limit in bytes: what the user set, or 80 % of the memory available at the first call; in either case no more than
/// the address space had room for then, where that is limited.
pub fn limit() -> u64 {
    allowed().min(address_space::room().unwrap_or(u64::MAX))
}

/// What the user set, or the default share of the memory available at the first call.
fn allowed() -> u64 {
    static AVAILABLE: OnceLock<u64> = OnceLock::new();
    match LIMIT.load(Ordering::Relaxed) {
        0 => (*AVAILABLE.get_or_init(available) as f64 * DEFAULT_SHARE) as u64,
        bytes => bytes,
    }
}

/// Whether the operating system limits the address space or the data of this process.
pub fn is_address_space_limited() -> bool {
    address_space::is_limited()
}

/// Counts the address space that is in use now as the program's own. To be called once, when its threads have what they
/// keep.
pub fn count_from_here() {
    address_space::count_from_here();
}

/// Bytes that all threads together have reserved now.
pub fn reserved() -> u64 {
    RESERVED.load(Ordering::Relaxed)
}

/// Bytes that may be reserved now: the limit less what is reserved.
pub fn room() -> u64 {
    limit().saturating_sub(reserved())
}

/// Bytes of memory available now, the control groups' limits included where there are any.
fn available() -> u64 {
    if !sysinfo::IS_SUPPORTED_SYSTEM {
        return u64::MAX / 2;
    }
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let free = system.available_memory();
    let groups = told_by_kernel(Path::new("/proc/self/cgroup"));
    match left_by_groups(&groups, Path::new("/sys/fs/cgroup")) {
        Some(left) if left > 0 => free.min(left),
        _ => free,
    }
}

/// The text of one of the kernel's own files, which are small; empty where there is none. (`files` needs the budget, and comes
/// after it.)
#[allow(clippy::disallowed_methods, reason = "no file of a user's")]
pub fn told_by_kernel(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Bytes left by the control groups of memory that this process is in, each group within its parent; `None` if none has
/// a limit. `groups` is the content of `/proc/self/cgroup`. In a container its paths may be those of the host, which do
/// not exist there: the root is then the container's own group.
fn left_by_groups(groups: &str, root: &Path) -> Option<u64> {
    groups.lines().filter_map(|line| left_by_group(line, root)).min()
}

/// The same for one line, `hierarchy:controllers:path`: no controller in version 2, a list of them in version 1.
fn left_by_group(line: &str, root: &Path) -> Option<u64> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let (root, limit, used) = match controllers {
        "" => (root.to_path_buf(), "memory.max", "memory.current"),
        list if list.split(',').any(|name| name == "memory") => {
            (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return None,
    };
    let number = |file: PathBuf| told_by_kernel(&file).trim().parse::<u64>().ok();
    let group = root.join(path.trim_start_matches('/'));
    let parents = group.ancestors().take_while(|folder| folder.starts_with(&root));
    parents.filter_map(|folder| Some(number(folder.join(limit))?.saturating_sub(number(folder.join(used))?))).min()
}

/// A share of the memory budget, given back when dropped. Kept beside the arrays that it was asked for.
#[derive(Debug)]
#[must_use = "a reservation that is not kept is given back at once"]
pub struct Reservation {
    bytes: u64,
}

impl Reservation {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves `numbers` more f64 values, for arrays whose size is not known before.
    pub fn grow(&mut self, what: &str, numbers: f64, advice: &str) -> Result<()> {
        let mut more = reserve(what, numbers, advice)?;
        self.bytes += std::mem::take(&mut more.bytes);
        Ok(())
    }

    /// Gives back all but `numbers` f64 values, when the work is done and only its result is kept.
    pub fn shrink(&mut self, numbers: f64) {
        let kept = ((numbers * 8.0) as u64).min(self.bytes);
        RESERVED.fetch_sub(self.bytes - kept, Ordering::Relaxed);
        self.bytes = kept;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        RESERVED.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reserves memory for arrays of `numbers` f64 values that live as long as the [`Reservation`], or says what would fit.
///
/// ```
/// use riemannian_laplace::internals::memory;
/// let kept = memory::reserve("a small matrix", 1_000.0, "nothing to advise")?;
/// assert_eq!(kept.bytes(), 8_000);
/// assert!(memory::reserved() >= 8_000);
/// drop(kept);
/// let error = memory::reserve("the precision matrix", 1e15, "use the function-space solver").unwrap_err();
/// assert!(error.to_string().contains("8000000.00 GB"));
/// # Ok::<(), riemannian_laplace::Error>(())
/// ```
pub fn reserve(what: &str, numbers: f64, advice: impl Into<String>) -> Result<Reservation> {
    let (needed, limit) = (numbers * 8.0, allowed());
    let bytes = needed.ceil() as u64; // 0 for negative numbers and NaN
    let fits = |reserved: u64| {
        let total = reserved.checked_add(bytes)?;
        (needed < f64::INFINITY && total <= limit).then_some(total)
    };
    let refused = |limit: u64, used: u64, advice: String| Error::Memory {
        what: what.to_string(),
        needed: needed / 1e9,
        limit: limit as f64 / 1e9,
        reserved: used as f64 / 1e9,
        advice,
    };
    let reservation = match RESERVED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
        Ok(_) => Reservation { bytes },
        Err(reserved) => return Err(refused(limit, reserved, advice.into())),
    };
    match address_space::shortage(bytes, reserved()) {
        Some(Shortage { limit, used, enough, command }) => {
            let advice = format!(
                "{}; the operating system limits the memory of this process, and `{command} {}` would be enough for this",
                advice.into(),
                enough.div_ceil(1024)
            );
            Err(refused(limit, used, advice))
        }
        None => Ok(reservation),
    }
}

/// Checks that arrays of `numbers` f64 values could be reserved now, for memory that is soon given back.
///
/// ```
/// use riemannian_laplace::internals::memory;
/// assert!(memory::check("a small matrix", 1_000.0, "nothing to advise").is_ok());
/// assert!(memory::check("the precision matrix", 1e15, "use the function-space solver").is_err());
/// ```
pub fn check(what: &str, numbers: f64, advice: impl Into<String>) -> Result<()> {
    reserve(what, numbers, advice).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The budget is shared by all tests of this process: amounts here are shares of the limit that no test comes near,
    // and no test changes the limit.

    #[test]
    fn reservations_of_all_threads_count_together_and_are_given_back() -> Result<()> {
        let sixty_percent = 0.6 * limit() as f64 / 8.0;
        let kept = reserve("the first", sixty_percent, "")?;
        assert_eq!(kept.bytes(), (sixty_percent * 8.0).ceil() as u64);
        let elsewhere = std::thread::spawn(move || reserve("the second", sixty_percent, "wait").map(drop)).join();
        match elsewhere {
            Ok(Err(error)) => assert!(error.to_string().contains("GB are in use; wait"), "{error}"),
            other => panic!("{other:?}"),
        }
        assert!(check("the third", sixty_percent, "").is_err());
        drop(kept);
        check("the fourth", sixty_percent, "")
    }

    #[test]
    fn what_is_no_amount_is_refused_or_nothing() -> Result<()> {
        assert!(reserve("infinitely much", f64::INFINITY, "").is_err());
        assert!(reserve("not a number", f64::NAN, "").is_err());
        assert!(reserve("more than bytes can be counted", 1e300, "").is_err());
        assert_eq!(reserve("nothing", 0.0, "")?.bytes(), 0);
        assert_eq!(reserve("less", -1.0, "")?.bytes(), 0);
        let mut kept = reserve("a thousand", 1000.0, "")?;
        kept.shrink(1e9);
        assert_eq!(kept.bytes(), 8000);
        kept.shrink(10.0);
        assert_eq!(kept.bytes(), 80);
        Ok(())
    }

    #[test]
    fn the_tightest_control_group_counts() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let root = folder.path();
        let write = |group: &str, names: [&str; 2], limit: &str, used: &str| {
            std::fs::create_dir_all(root.join(group))?;
            std::fs::write(root.join(group).join(names[0]), format!("{limit}\n"))?;
            std::fs::write(root.join(group).join(names[1]), format!("{used}\n"))
        };
        let second = ["memory.max", "memory.current"];
        write("slice", second, "500", "350")?;
        write("slice/job", second, "max", "100")?;
        write("slice/job/step", second, "400", "50")?;
        assert_eq!(left_by_groups("0::/slice/job/step\n", root), Some(150));
        assert_eq!(left_by_groups("0::/\n", root), None);
        write("", second, "1000", "900")?;
        assert_eq!(left_by_groups("0::/slice/job/step\n", root), Some(100));
        assert_eq!(left_by_groups("0::/of/the/host\n", root), Some(100));
        assert_eq!(left_by_groups("", root), None);
        assert_eq!(left_by_groups("no such line\n", root), None);

        write("memory/job", ["memory.limit_in_bytes", "memory.usage_in_bytes"], "70", "80")?;
        assert_eq!(left_by_groups("9:cpu,cpuacct:/job\n8:pids,memory:/job\n", root), Some(0));
        assert_eq!(left_by_groups("9:cpu,cpuacct:/job\n", root), None);
        Ok(())
    }
}
