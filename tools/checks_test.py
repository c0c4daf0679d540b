#!/usr/bin/env python3
"""Proves that each check of tools/ accepts what it should and can fail."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_layers
import check_tidy
import claims
from source_files import blank_literals

TOOLS = pathlib.Path(__file__).resolve().parent


class Tree(unittest.TestCase):
    """A repository in a temporary folder, filled by write()."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class Layers(Tree):
    def setUp(self):
        super().setUp()
        self.write("docs/layers.txt", "base:\ntext: base\nengine: base\napi: engine/a.h base\n"
                                      "apps: base api\n")
        self.write("CMakeLists.txt", "yeoul_module(base LIBS fmt::fmt)\n"
                                     "yeoul_module(text DEPS base)\n"
                                     "yeoul_module(engine DEPS base)\n"
                                     "yeoul_module(api DEPS engine base)\n")

    def outcome(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = check_layers.main(self.root)
        return code, output.getvalue()

    def test_allowed_includes_pass(self):
        self.write("src/text/a.h", '#include "base/b.h"\n#include <vector>\n#include "text/c.h"\n')
        self.write("src/api/a.cc", '#include "engine/a.h"\n')
        self.write("apps/main.cc", '#include "api/a.h"\n#include "options.h"\n')
        self.assertEqual(self.outcome(), (0, "layers: ok\n"))

    def test_an_upward_include_fails_with_its_place(self):
        self.write("src/base/b.h", '\n#include "text/a.h"\n')
        code, output = self.outcome()
        self.assertEqual(code, 1)
        self.assertIn("base/b.h:2: base may not include text/a.h", output)

    def test_another_header_of_a_partly_open_module_fails(self):
        self.write("src/api/a.cc", '#include "engine/b.h"\n')
        self.assertEqual(self.outcome()[0], 1)

    def test_an_include_that_is_not_rooted_fails(self):
        self.write("src/text/a.cc", '#include "a.h"\n')
        self.assertIn("not rooted", self.outcome()[1])

    def test_an_unknown_module_fails(self):
        self.write("src/extra/a.cc", "")
        self.assertIn("'extra' is not in", self.outcome()[1])

    def test_a_cycle_in_the_table_fails(self):
        self.write("docs/layers.txt", "base: text\ntext: base\n")
        self.assertIn("can reach itself", self.outcome()[1])

    def test_a_link_that_the_table_does_not_know_fails(self):
        self.write("CMakeLists.txt", "yeoul_module(base DEPS text LIBS fmt::fmt)\n")
        self.assertIn("yeoul_module(base) has DEPS ['text']", self.outcome()[1])


class Tidy(Tree):
    def setUp(self):
        super().setUp()
        self.write("docs/architecture.md", "| base | pages |\n")

    def rules(self):
        """-> the rules that the tree breaks."""
        return {finding.split(": ")[1] for finding in check_tidy.violations(self.root)}

    def write_clean(self):
        self.write("src/base/a.h", "// Why.\n#pragma once\nstruct Page {};\n")
        self.write("src/base/a.cc", '#include "base/a.h"\n')
        self.write("apps/main.cc", '#include "base/a.h"\nint main() { return getenv("A") != 0; }\n')

    def test_a_clean_tree_passes(self):
        self.write_clean()
        self.assertEqual(self.rules(), set())

    def test_a_line_of_101_columns_fails_and_one_of_100_does_not(self):
        self.write_clean()
        self.write("tools/a.py", "#" * 100 + "\n")
        self.assertEqual(self.rules(), set())
        self.write("tools/a.py", "#" * 101 + "\n")
        self.assertEqual(self.rules(), {"columns"})

    def test_801_lines_fail_and_500_warn(self):
        self.write_clean()
        self.write("tests/a.cc", "\n" * 500)
        self.assertEqual(self.rules(), set())
        self.assertEqual(len(list(check_tidy.long_files(self.root))), 1)
        self.write("tests/a.cc", "\n" * 801)
        self.assertEqual(self.rules(), {"file-length"})

    def function_findings(self, text):
        self.write("tests/a.cc", text)
        return list(check_tidy.check_functions(self.root))

    def test_a_function_of_71_lines_fails_and_one_of_70_does_not(self):
        self.assertEqual(self.function_findings("void f() {\n" + "  g();\n" * 68 + "}\n"), [])
        found = self.function_findings("\nvoid f() {\n" + "  g();\n" * 69 + "}\n")
        self.assertEqual(len(found), 1)
        self.assertIn("a.cc:2: function-length: 71 lines", found[0])

    def test_functions_are_found_in_namespaces_classes_and_templates(self):
        body = "{\n" + "  if (x) {\n  }\n" * 36 + "}\n"
        for head in ("namespace n {\nclass A : public B {\n int f() const ",
                     "template <typename T>\nT f(T x)\n  requires(sizeof(T) > 1) ",
                     "TEST(Suite, name) ", "A::A(int b) : b_(b) ",
                     "const char* s = \"{\";\nchar c = '{';  // {\nint f() "):
            self.assertEqual(len(self.function_findings(head + body)), 1, head)

    def test_long_types_tables_and_namespaces_are_not_functions(self):
        lines = "  int x;\n" * 80
        for text in ("struct S {\n" + lines + "};\n", "struct alignas(64) S {\n" + lines + "};\n",
                     "namespace n {\n" + lines + "}\n", "int a[] = {\n" + "  1,\n" * 80 + "};\n"):
            self.assertEqual(self.function_findings(text), [], text[:20])

    def test_a_long_function_may_say_why(self):
        text = "// tidy: long-function one switch over every operation\nvoid f() {\n" \
            + "  g();\n" * 80 + "}\n"
        self.assertEqual(self.function_findings(text), [])
        self.assertEqual(len(self.function_findings(text.replace("long-function one", "one"))), 1)

    def test_empty_names_fail_for_files_folders_and_types(self):
        for path, text in (("src/base/string_util.cc", ""), ("tests/helpers/a.cc", ""),
                           ("tests/a.cc", "class PageManager {};\n")):
            with self.subTest(path):
                self.setUp()
                self.write(path, text)
                self.assertEqual(self.rules(), {"name"})
        self.setUp()
        self.write("tests/a.cc", "// a manager of utilities\nstruct Utilization {};\n")
        self.assertEqual(self.rules(), set())

    def test_the_environment_is_for_apps(self):
        self.write("src/base/b.cc", 'auto a = std::getenv("A");\n')
        self.assertEqual(self.rules(), {"getenv"})

    def test_debt_fails(self):
        self.write("tests/a.cc", "// TO" "DO later\n")
        self.assertEqual(self.rules(), {"debt"})

    def test_a_header_without_pragma_once_fails(self):
        self.write_clean()
        self.write("src/base/a.h", "// #pragma once\nstruct Page {};\n")
        self.assertEqual(self.rules(), {"pragma-once"})

    def test_another_header_before_the_own_one_fails(self):
        self.write_clean()
        self.write("src/base/a_test.cc", '#include <vector>\n#include "base/b.h"\n'
                                         '#include "base/a.h"\n')
        self.assertEqual(self.rules(), {"own-header"})

    def test_a_header_used_by_its_own_test_only_fails(self):
        self.write_clean()
        self.write("src/base/b.h", "#pragma once\n")
        self.write("src/base/b_test.cc", '#include "base/b.h"\n')
        self.assertEqual(self.rules(), {"unused-header"})

    def test_a_page_that_names_a_missing_file_or_forgets_a_module_fails(self):
        self.write_clean()
        page = "| base | pages |\n\n## Responsibility\n\n| x | `base/a` |\n"
        self.write("docs/architecture.md", page)
        self.assertEqual(self.rules(), set())
        self.write("docs/architecture.md", page + "| y | `base/a.h` over `b` |\n")
        self.assertEqual(self.rules(), {"stale-page"})
        self.write("docs/architecture.md", page.replace("| base |", "| text |"))
        self.assertEqual(self.rules(), {"stale-page"})

    def test_a_header_that_needs_another_does_not_compile_alone(self):
        self.write("src/base/a.h", "#pragma once\nstd::vector<int> v();\n")
        self.write("src/base/b.h", "#pragma once\n#include <vector>\nstd::vector<int> w();\n")
        found = list(check_tidy.compile_headers(self.root, "c++"))
        self.assertEqual(len(found), 1)
        self.assertIn("a.h: does not compile alone", found[0])

    def test_blanking_keeps_lines_and_digit_separators(self):
        self.assertEqual(blank_literals('a("x{") /* {\n*/ 1\'000\'000;'),
                         "a(    )     \n   1'000'000;")


class Format(Tree):
    def run_check(self, text):
        self.write(".clang-format", (TOOLS.parent / ".clang-format").read_text())
        self.write("src/base/a.cc", text)
        command = [TOOLS / "check_format.sh", self.root]
        return subprocess.run(command, capture_output=True).returncode

    def test_formatted_passes_and_unformatted_fails(self):
        self.assertEqual(self.run_check("int f(int a);\n"), 0)
        self.assertNotEqual(self.run_check("int f(int  a) ;\n"), 0)


class Claims(Tree):
    ROW = {"name": "speed", "value": 60, "unit": "tok/s", "goal": ">= 50", "holds": True}

    def complaints(self, rows, entry=None, only="", exit_code=0):
        lines = "\n".join(["a line that is no row", *(json.dumps(row) for row in rows)])
        program = f"import sys; print({lines!r}); sys.exit({exit_code})"
        entry = {"name": "speed", "command": [sys.executable, "-c", program], **(entry or {})}
        self.write("tests/claims.d/a.json", json.dumps([entry]))
        self.output = io.StringIO()
        with contextlib.redirect_stdout(self.output):
            return claims.run_all(self.root, only)

    def test_a_row_that_holds_is_printed_and_passes(self):
        self.assertEqual(self.complaints([self.ROW]), [])
        self.assertEqual(json.loads(self.output.getvalue()), self.ROW)

    def test_a_row_that_does_not_hold_fails(self):
        self.assertEqual(len(self.complaints([{**self.ROW, "holds": False}])), 1)

    def test_a_missing_row_fails(self):
        self.assertIn("no row", self.complaints([])[0])

    def test_a_row_without_a_key_fails(self):
        row = {key: value for key, value in self.ROW.items() if key != "unit"}
        self.assertIn("without unit", self.complaints([row])[0])

    def test_an_undeclared_row_and_a_failing_command_fail(self):
        self.assertIn("undeclared", self.complaints([self.ROW, {**self.ROW, "name": "b"}])[0])
        self.assertIn("exit code 3", self.complaints([self.ROW], exit_code=3)[0])

    def test_only_chooses_rows_and_a_pattern_without_match_fails(self):
        both = {"name": None, "names": ["speed", "size"]}
        self.assertEqual(self.complaints([self.ROW], both, only="spe"), [])
        self.assertEqual(len(self.complaints([self.ROW], both)), 1)
        self.assertIn("no claim matches", self.complaints([self.ROW], only="xyz")[0])

    def test_a_name_declared_twice_fails(self):
        self.write("tests/claims.d/b.json", '[{"name": "speed", "command": ["true"]}]')
        with self.assertRaises(ValueError):
            self.complaints([self.ROW])


if __name__ == "__main__":
    unittest.main()
