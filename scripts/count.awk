# Adds up what test binaries report on standard output: `N passed, N failed, N skipped`.
#
# Reads the output of `cargo test -- --show-output`. A test that cannot run here prints
# `SKIP <test name>: <reason>` and returns: it counts as skipped and not as passed, once, however
# often it says so. Ignored tests count as skipped. A binary that ends without a result (killed,
# aborted) counts as one failure. What a test has printed counts for nothing else, not even where it
# has run test binaries of its own. With `-v unsteady=N`, N of those that failed passed when they ran
# once more.

!quoted && /^running [0-9]+ tests?$/ {
    failed += unfinished
    unfinished = 1
    block = ""
}

/^successes:$/ { block = "successes"; quoted = 0 }
/^failures:$/ { block = "failures"; quoted = 0 }
/^---- .* stdout ----$/ { said = 0; quoted = 1 }

/^SKIP / {
    if (block == "successes" && !said) { skipped++; passed--; said = 1 }
    if (block == "") skipped++
}

!quoted && /^test result: / {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") passed += $i
        if ($(i + 1) == "failed;") failed += $i
        if ($(i + 1) == "ignored;") skipped += $i
    }
    unfinished = 0
    block = ""
}

END {
    printf "%d passed, %d failed, %d skipped\n", passed + unsteady, failed + unfinished - unsteady, skipped
}
