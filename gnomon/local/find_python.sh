# Prints the first of the named Pythons that is 3.11 or newer and can make environments; says what is missing otherwise.
seen=
for python in "$@"; do
    [ -n "$python" ] || continue
    # A name may be there and not work (pyenv's shims), so each is asked.
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        if "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
            command -v "$python"
            exit 0
        fi
        seen=${seen:-$python}
    fi
done
if [ -n "$seen" ]; then
    version=$("$seen" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "error: $seen cannot make virtual environments: its modules venv and ensurepip are missing" >&2
    echo "Debian/Ubuntu: apt install python$version-venv (or python3-venv). Then run the same command again." >&2
else
    echo "error: Python 3.11 or newer is needed, and none of these is one: $*" >&2
    echo "Debian/Ubuntu: apt install python3 python3-venv. Fedora: dnf install python3. macOS: brew install python." >&2
    echo "One that is elsewhere: make PYTHON=/path/to/python3 ..." >&2
fi
exit 1
