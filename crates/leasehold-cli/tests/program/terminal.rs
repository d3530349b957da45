//! The program on a terminal, under a shell with job control. What is typed is echoed there, so scripts write
//! `wo""rd` where `word` is waited for.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Place, Running, end_of, wait_until};

/// A terminal with a program in a session of its own.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    child: Child,
}

impl Terminal {
    /// An interactive shell, in which `$L` is the program.
    fn with_shell(place: &Place) -> Self {
        let mut terminal = Self::start(place, &["bash", "--norc", "--noprofile", "-i"]);
        terminal.enter("PS1=; echo the shell is rea\"\"dy");
        terminal.wait_for("the shell is ready");
        terminal
    }

    fn start(place: &Place, words: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = open(
            &name,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let slave = File::from(slave.unwrap());
        let stream = || Stdio::from(slave.try_clone().unwrap());

        let program = place.leasehold([""; 0]);
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait"])
            .args(words)
            .envs(
                program
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("L", program.get_program())
            .env("TERM", "xterm")
            .env_remove("HISTFILE")
            .current_dir(place.path(""))
            .stdin(stream())
            .stdout(stream())
            .stderr(stream());
        let child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().unwrap();
        let shown = Arc::clone(&screen);
        // Ends when the last process on the terminal does.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                shown
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self {
            keyboard,
            screen,
            child,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    fn wait_for(&self, text: &str) {
        wait_until(&format!("{text:?} on the screen"), || self.shows(text));
    }

    fn shows(&self, text: &str) -> bool {
        self.screen.lock().unwrap().contains(text)
    }

    /// Asks the shell for the exit code of the last command: it has the terminal then.
    fn assert_code(&mut self, code: i32) {
        self.enter("echo co\"\"de:$?.");
        self.wait_for("code:");
        let screen = self.screen.lock().unwrap();
        assert!(screen.contains(&format!("code:{code}.")), "{screen}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the screen:\n{}", self.screen.lock().unwrap());
        }
    }
}

const READER: &str = r#"'echo $$ > pid; echo rea""dy; read line; echo go""t:$line'"#;

#[test]
fn an_interactive_command_reads_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    terminal.enter(&format!("$L run k -- sh -c {READER}"));
    place.line("pid");
    terminal.enter("hello");
    terminal.wait_for("got:hello");
    terminal.assert_code(0);
}

#[test]
fn a_command_whose_output_goes_elsewhere_gets_the_terminal_when_it_asks_for_it() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    terminal.enter(&format!("$L run k -- sh -c {READER} | cat"));
    place.line("pid");
    terminal.enter("hello");
    terminal.wait_for("got:hello");
    terminal.assert_code(0);
}

#[test]
fn a_pager_behind_the_command_keeps_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    let script = "echo data; while ! test -e go; do sleep 0.01; done";
    let pager =
        r#"(read data; echo $data > data; read key < /dev/tty; echo pa""ger:$key; touch go)"#;
    terminal.enter(&format!("$L run k -- sh -c '{script}' | {pager}"));
    place.line("data");
    terminal.enter("q");
    terminal.wait_for("pager:q");
    terminal.assert_code(0);
}

#[test]
fn a_script_has_the_terminal_back_when_the_command_is_done() {
    let place = Place::new();
    let script = "$L run k -- true; echo done > done; read line; echo got:$line; read line";
    let mut terminal = Terminal::start(&place, &["sh", "-c", script]);
    place.line("done");
    terminal.enter("hello");
    terminal.wait_for("got:hello");
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    let script = r#"trap "echo go\"\"t-int; echo x >> ints" INT; echo $$ > pid; while ! test -e go; do sleep 0.01; done; exit 9"#;
    terminal.enter(&format!("$L run k -- sh -c '{script}'"));
    place.line("pid");
    terminal.press("\x03");
    terminal.wait_for("got-int");
    std::fs::write(place.path("go"), "").unwrap();
    terminal.assert_code(9);
    assert_eq!(place.text("ints"), "x\n");
}

#[test]
fn ctrl_c_reaches_a_command_in_the_background_of_a_pipeline() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    terminal.enter("set -o pipefail; $L run k -- sh -c 'echo $$ > pid; exec sleep 300' | cat");
    let pid = place.pid("pid");
    terminal.press("\x03");
    end_of(pid);
    terminal.assert_code(130);
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it_with_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    terminal.enter(&format!("$L run k -- sh -c {READER}"));
    place.line("pid");
    terminal.press("\x1a");
    terminal.wait_for("Stopped");
    assert_eq!(place.state("k"), "leased");
    terminal.enter("fg");
    terminal.enter("hello");
    terminal.wait_for("got:hello");
    terminal.assert_code(0);
}

#[test]
fn ctrl_z_stops_a_job_whose_command_is_not_in_the_foreground() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    terminal
        .enter("mkfifo go; $L run k -- sh -c 'echo $$ > pid; read line < go; echo fi\"\"n' | cat");
    place.line("pid");
    terminal.press("\x1a");
    terminal.wait_for("Stopped");
    terminal.enter("fg");
    std::fs::write(place.path("go"), "").unwrap();
    terminal.wait_for("fin");
    terminal.assert_code(0);
}

#[test]
fn bg_continues_the_job_without_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    // Not a loop of short commands: a shell that is stopped while it forks can wait for its child for ever.
    terminal.enter("mkfifo go; $L run k -- sh -c 'echo $$ > pid; read line < go; echo fin > fin'");
    place.line("pid");
    terminal.press("\x1a");
    terminal.wait_for("Stopped");
    terminal.enter("bg; echo bac\"\"kground");
    terminal.wait_for("background");
    std::fs::write(place.path("go"), "").unwrap();
    place.line("fin");
    terminal.assert_code(0);
}

#[test]
fn a_job_that_is_stopped_past_its_term_loses_its_command_and_fg_gives_75() {
    let place = Place::new();
    let mut terminal = Terminal::with_shell(&place);
    terminal.enter("$L run --term 4s k -- sh -c 'echo $$ > pid; read line'");
    let pid = place.pid("pid");
    terminal.press("\x1a");
    terminal.wait_for("Stopped");
    end_of(pid);
    terminal.enter("fg");
    terminal.wait_for("the lease on k is lost");
    terminal.assert_code(75);
}

#[test]
fn without_a_shell_that_could_continue_it_ctrl_z_stops_nothing() {
    let place = Place::new();
    let script = "echo $$ > pid; read line; echo got:$line; read line";
    let program = env!("CARGO_BIN_EXE_leasehold");
    let mut terminal = Terminal::start(&place, &[program, "run", "k", "--", "sh", "-c", script]);
    place.line("pid");
    terminal.press("\x1a");
    terminal.enter("hello");
    terminal.wait_for("got:hello");
}

#[test]
fn the_shell_has_its_terminal_back_when_the_watchdog_or_the_program_is_killed() {
    for (victim, code) in [("$PPID", 70), ("$(ps -o ppid= $PPID)", 137)] {
        let place = Place::new();
        let mut terminal = Terminal::with_shell(&place);
        terminal.enter(&format!(
            "$L run --kill-after 1s k -- sh -c 'echo $$ > pid; echo {victim} > victim; read line'"
        ));
        let pid = place.pid("pid");
        kill_process(place.pid("victim"), Signal::KILL).unwrap();
        end_of(pid);
        terminal.assert_code(code);
    }
}

#[test]
fn who_waits_at_a_terminal_sees_for_whom_and_ctrl_c_leaves() {
    let place = Place::new();
    let holding = place.start(["run", "k", "--holder", "ann", "--", "sleep", "300"]);
    wait_until("the key is held", || place.state("k") == "leased");
    let mut terminal = Terminal::with_shell(&place);
    for command in ["run", "once"] {
        terminal.screen.lock().unwrap().clear();
        terminal.enter(&format!("$L {command} k -- true"));
        terminal.wait_for("waiting for k, held by ann");
        terminal.press("\x03");
        terminal.assert_code(130);
    }
    drop(holding);
}

#[test]
fn who_waited_at_a_terminal_is_told_who_did_it() {
    let place = Place::new();
    let script = "echo $$ > pid; while ! test -e go; do sleep 0.01; done";
    let working =
        Running::start(place.leasehold(["once", "k", "--holder", "ann", "--", "sh", "-c", script]));
    place.line("pid");
    let mut terminal = Terminal::with_shell(&place);
    terminal.enter("$L once k -- true");
    terminal.wait_for("waiting for k, held by ann");
    std::fs::write(place.path("go"), "").unwrap();
    terminal.wait_for("k was done by ann at ");
    terminal.assert_code(0);
    assert_eq!(working.wait().code, Some(0));
}
