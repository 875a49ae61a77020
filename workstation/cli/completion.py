"""`bulkhead completion bash|zsh|fish`: a script with which a shell asks `bulkhead __complete` for the next word.

The script contains no list of commands, so it works with every release. `workstation.cli.complete` answers it.
"""

import argparse
import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from workstation.cli.failures import Exit
from workstation.cli.parsing import RAW, Parser

Shell: TypeAlias = Literal["bash", "zsh", "fish"]

_BASH: Final = """\
# bulkhead completion bash
_bulkhead() {
    local line directive="" words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :[0-9]*) directive="$line" ;;
            *) COMPREPLY+=("${line%%$'\\t'*}") ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete -- "${words[@]}" 2>/dev/null)
    # bash splits `--option=value` at `=`, and replaces only the part after it.
    if [ "${COMP_WORDS[COMP_CWORD]}" = "=" ] || [ "${COMP_WORDS[COMP_CWORD - 1]}" = "=" ]; then
        COMPREPLY=("${COMPREPLY[@]#*=}")
    fi
    [ "$directive" = ":0" ] && compopt -o default 2>/dev/null
    return 0
}
complete -F _bulkhead bulkhead
"""
_ZSH: Final = """\
#compdef bulkhead
# bulkhead completion zsh
_bulkhead() {
    local -a lines found
    local line directive
    lines=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    directive="${lines[-1]}"
    for line in "${(@)lines[1,-2]}"; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    (( ${#found} )) && _describe 'bulkhead' found
    [[ "$directive" == ":0" ]] && _files
}
compdef _bulkhead bulkhead
"""
_FISH: Final = """\
# bulkhead completion fish
function __bulkhead_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines ($words[1] __complete -- $words[2..-1] 2>/dev/null)
    test (count $lines) -gt 0; or return
    if test "$lines[-1]" = ":0"
        __fish_complete_path (commandline -ct)
    end
    string match -v -r '^:[0-9]+$' -- $lines
end
complete -c bulkhead -f -a '(__bulkhead_complete)'
"""
SCRIPTS: Final[dict[str, str]] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """`completion SHELL`."""

    shell: Shell


def add_arguments(parser: Parser) -> None:
    """`completion SHELL`."""
    parser.description = (
        "Print a script with which a shell completes commands, options, their values, and names of tenants. For tenants it\n"
        "asks the host, for at most a second. kubectl's own completion script completes `kubectl bulkhead`."
    )
    parser.epilog = (
        "examples:\n"
        "  source <(bulkhead completion bash)                                  in ~/.bashrc\n"
        "  bulkhead completion zsh > ~/.zfunc/_bulkhead                        into a folder of $fpath\n"
        "  bulkhead completion fish > ~/.config/fish/completions/bulkhead.fish\n"
    )
    parser.formatter_class = RAW
    parser.add_argument("shell", metavar="SHELL", choices=list(SCRIPTS), help="bash, zsh or fish")
    parser.does(_request, show)


def _request(options: argparse.Namespace) -> CompletionRequest:
    return CompletionRequest(options.shell)


def show(request: CompletionRequest) -> int:
    """`bulkhead completion SHELL`."""
    sys.stdout.write(SCRIPTS[request.shell])
    return Exit.DONE
