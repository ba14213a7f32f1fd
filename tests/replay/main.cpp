// replay [--short] FILE: compiles the kernels of rows.h and compares hashes of their code with the lines of FILE;
// --short: every fortieth, and of all whether they are the kernels that they were. With KILN_UPDATE_GOLDEN=1 it writes
// FILE: all of it, or with --short the lines of kernels that are new or other ones.
// replay --keep DIR: writes the code of all, as text, and the lines.
// replay --against DIR [NAME]: compares with what was kept, and shows how one kernel differs: NAME, which is a part of
// its line, or else the shortest that differs.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compile_rows.h"
#include "kiln/codegen/compile.h"

namespace kiln::replay {
namespace {

namespace fs = std::filesystem;

constexpr int kSkipped = 77;
constexpr size_t kShortForm = 40;        // one row of so many
constexpr size_t kMostNames = 40;        // that are printed
constexpr const char* kLines = "lines";  // the file of them in a folder of kept code
constexpr const char* kHead =
    "# Code by kernel, config and target: a hash of the kernel, of the code, its bytes. LLVM ";

int fail(const std::string& message) {
  std::fprintf(stderr, "replay: %s\n", message.c_str());
  return 1;
}

bool is_built(const Target& target) {
  return target.needs.empty() || std::string_view(KILN_TARGETS).find(target.needs) != std::string_view::npos;
}

std::string to_text(const Outcomes& outcomes) {
  std::string out = std::string(kHead) + LLVM_VERSION + "\n";
  for (const auto& [name, outcome] : outcomes) {
    out += name + " " + outcome.kernel + " " + outcome.code + " " + std::to_string(outcome.bytes) + "\n";
  }
  return out;
}

// The name, which has spaces, and three words behind it.
void read_line(const std::string& line, Outcomes& out) {
  std::istringstream words(line);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  if (all.size() < 4) return;
  std::string name = all[0];
  for (size_t i = 1; i + 3 < all.size(); ++i) name += " " + all[i];
  out[name] = {all[all.size() - 3], all[all.size() - 2], std::strtoull(all.back().c_str(), nullptr, 10)};
}

struct Golden {
  std::string llvm;
  Outcomes outcomes;
};

Result<Golden> read_golden(const std::string& path) {
  std::ifstream file(path);
  if (!file) return invalid_argument("cannot read " + path);
  Golden out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kHead)) {
      out.llvm = line.substr(std::string_view(kHead).size());
    } else {
      read_line(line, out.outcomes);
    }
  }
  return out;
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) return invalid_argument("cannot write " + path);
  return {};
}

// The lines that differ between two runs, by what differs.
struct Difference {
  std::vector<std::string> code, kernel, one_sided;
  bool is_none() const { return code.empty() && kernel.empty() && one_sided.empty(); }
};

// `rows`: what there is to compile; of these `now` has all or some. What is compiled is compared of all.
Difference compare(const Outcomes& before, const Outcomes& now, const std::vector<Row>& rows) {
  Difference out;
  std::map<std::string, bool> known;
  std::map<const Subject*, std::string> hashes;
  for (const Row& row : rows) {
    const std::string name = row.name();
    known[name] = true;
    const auto was = before.find(name);
    if (was == before.end()) {
      out.one_sided.push_back(name + " (new)");
      continue;
    }
    auto& hash = hashes[row.subject];
    if (hash.empty()) hash = kernel_hash(*row.subject);
    const auto is = now.find(name);
    if (hash != was->second.kernel) {
      out.kernel.push_back(name);
    } else if (is != now.end() && is->second != was->second) {
      out.code.push_back(name);
    }
  }
  for (const auto& [name, outcome] : before) {
    if (!known.contains(name)) out.one_sided.push_back(name + " (gone)");
  }
  return out;
}

void print_names(const char* what, const std::vector<std::string>& names, const Outcomes& before, const Outcomes& now) {
  if (names.empty()) return;
  std::printf("%zu %s:\n", names.size(), what);
  for (size_t i = 0; i < names.size() && i < kMostNames; ++i) {
    const auto was = before.find(names[i]);
    const auto is = now.find(names[i]);
    std::printf("  %s", names[i].c_str());
    if (was != before.end() && is != now.end()) {
      std::printf("  %llu → %llu bytes", static_cast<unsigned long long>(was->second.bytes),
                  static_cast<unsigned long long>(is->second.bytes));
    }
    std::printf("\n");
  }
  if (names.size() > kMostNames) std::printf("  … and %zu more\n", names.size() - kMostNames);
}

void print(const Difference& difference, const Outcomes& before, const Outcomes& now) {
  print_names("compile to other code", difference.code, before, now);
  print_names("are other kernels, configs or facts than they were", difference.kernel, before, now);
  print_names("are on one side alone", difference.one_sided, before, now);
}

const Row* find_row(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.name() == name) return &row;
  }
  return nullptr;
}

// Does not return where `diff` can be started.
int show(const Row& row, const std::string& folder) {
  const std::string before = folder + "/" + file_name(row.name());
  const std::string now = (fs::temp_directory_path() / ("replay." + file_name(row.name()))).string();
  Outcome outcome;
  if (auto written = write_file(now, code_of(row, outcome)); !written) return fail(written.error().message);
  std::printf("\n%s, as it was and is:\n", row.name().c_str());
  std::fflush(stdout);
  execlp("diff", "diff", "-u", before.c_str(), now.c_str(), static_cast<char*>(nullptr));
  return fail("cannot start diff; the code is in " + before + " and " + now);
}

// Writes the file anew: all of it, or the lines of kernels that are new or other ones.
int update(const std::string& path, const std::vector<Row>& rows, bool is_short) {
  for (const Target& target : targets()) {
    if (!is_built(target)) return fail("this build has no " + std::string(target.needs) + " (KILN_TARGETS)");
  }
  Outcomes kept;
  std::vector<Row> left = rows;
  if (is_short) {
    auto golden = read_golden(path);
    if (!golden) return fail(golden.error().message);
    if (golden->llvm != LLVM_VERSION) return fail(path + " is of LLVM " + golden->llvm + ": all of it changes");
    std::erase_if(left, [&](const Row& row) {
      const auto found = golden->outcomes.find(row.name());
      const bool stays = found != golden->outcomes.end() && found->second.kernel == kernel_hash(*row.subject);
      if (stays) kept.insert(*found);
      return stays;
    });
  }
  auto outcomes = compile_rows(left, "");
  if (!outcomes) return fail(outcomes.error().message);
  outcomes->merge(kept);
  auto written = write_file(path, to_text(*outcomes));
  if (!written) return fail(written.error().message);
  std::printf("%zu of %zu compiled\n", left.size(), rows.size());
  return 0;
}

int check(const std::string& path, bool is_short) {
  const std::vector<Subject> all = subjects();
  const std::vector<Row> rows = rows_of(all);
  if (std::getenv("KILN_UPDATE_GOLDEN")) return update(path, rows, is_short);
  auto golden = read_golden(path);
  if (!golden) return fail(golden.error().message);
  if (golden->llvm != LLVM_VERSION) {
    std::printf("[SKIPPED] %s is of LLVM %s, this is " LLVM_VERSION "\n", path.c_str(), golden->llvm.c_str());
    return kSkipped;
  }
  std::vector<Row> chosen;
  for (size_t i = 0; i < rows.size(); i += is_short ? kShortForm : 1) {
    if (is_built(*rows[i].target)) chosen.push_back(rows[i]);
  }
  auto outcomes = compile_rows(chosen, "");
  if (!outcomes) return fail(outcomes.error().message);
  const Difference difference = compare(golden->outcomes, *outcomes, rows);
  std::printf("%zu of %zu compiled\n", outcomes->size(), rows.size());
  if (difference.is_none()) return 0;
  print(difference, golden->outcomes, *outcomes);
  std::printf(
      "Meant? KILN_UPDATE_GOLDEN=1 writes %s anew. To see how code differs: `replay --keep DIR` in a build of the "
      "commit "
      "before, `replay --against DIR` in this one.\n",
      path.c_str());
  return 1;
}

std::vector<Row> built_rows(const std::vector<Subject>& all) {
  std::vector<Row> rows = rows_of(all);
  std::erase_if(rows, [](const Row& row) { return !is_built(*row.target); });
  return rows;
}

int keep(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::vector<Subject> all = subjects();
  auto outcomes = compile_rows(built_rows(all), folder);
  if (!outcomes) return fail(outcomes.error().message);
  auto written = write_file(folder + "/" + kLines, to_text(*outcomes));
  if (!written) return fail(written.error().message);
  std::printf("%zu kept in %s\n", outcomes->size(), folder.c_str());
  return 0;
}

int against(const std::string& folder, const std::string& wanted) {
  auto kept = read_golden(folder + "/" + kLines);
  if (!kept) return fail(kept.error().message);
  const std::vector<Subject> all = subjects();
  const std::vector<Row> rows = built_rows(all);
  auto outcomes = compile_rows(rows, "");
  if (!outcomes) return fail(outcomes.error().message);
  const Difference difference = compare(kept->outcomes, *outcomes, rows);
  std::printf("%zu compiled\n", outcomes->size());
  print(difference, kept->outcomes, *outcomes);
  if (difference.is_none()) return 0;
  std::string shortest;
  for (const auto* names : {&difference.code, &difference.kernel}) {
    for (const std::string& name : *names) {
      if (name.find(wanted) == std::string::npos) continue;
      const auto bytes = [&](const std::string& of) { return (*outcomes)[of].bytes; };
      if (shortest.empty() || bytes(name) < bytes(shortest)) shortest = name;
    }
  }
  const Row* row = find_row(rows, shortest);
  return row ? show(*row, folder) : 1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && !arguments[0].starts_with("-")) return check(arguments[0], false);
  if (arguments.size() == 2 && arguments[0] == "--short") return check(arguments[1], true);
  if (arguments.size() == 2 && arguments[0] == "--keep") return keep(arguments[1]);
  if (arguments.size() >= 2 && arguments.size() <= 3 && arguments[0] == "--against") {
    return against(arguments[1], arguments.size() == 3 ? arguments[2] : "");
  }
  return fail("usage: replay [--short] FILE | --keep DIR | --against DIR [NAME]");
}

}  // namespace
}  // namespace kiln::replay

int main(int argc, char** argv) { return kiln::replay::run({argv + 1, argv + argc}); }
