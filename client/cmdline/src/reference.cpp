// The word --reference, which no table has: it is for the build, not for people.
#include "kiln/cmdline/reference.h"

#include <cstdio>

namespace kiln::cmdline {

std::optional<int> print_reference(const CLI::App& app, const std::string& program, int argc, char** argv) {
  if (argc != 3 || argv[1] != std::string("--reference")) return std::nullopt;
  const std::string format = argv[2];
  std::string text;
  if (format == "man") text = manual_sections(app, program);
  if (format == "sh") text = shell_tables(app, program);
  if (format == "fish") text = fish_lines(app, program);
  if (text.empty()) {
    std::fprintf(stderr, "%s: --reference man, sh or fish\n", program.c_str());
    return 1;
  }
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
}

}  // namespace kiln::cmdline
