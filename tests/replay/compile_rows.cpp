#include "compile_rows.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <new>
#include <thread>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/facts.h"
#include "kiln/dsl/request.h"
#include "kiln/dsl/text.h"
#include "requests/requests.h"

namespace kiln::replay {
namespace {

constexpr size_t kMostProcesses = 64, kHashDigits = 12;
constexpr const char* kRefused = "refused";

std::string hash_of(std::string_view text) {
  return to_hex(request_key("", std::as_bytes(std::span(text)))).substr(0, kHashDigits);
}

// Without locations in sources, which differ from one checkout to another.
std::string describe(const Subject& subject) {
  std::string out = dsl::print(subject.kernel);
  for (const auto& [name, value] : subject.config) out += name + "=" + std::to_string(value) + "\n";
  for (dsl::ParamFact fact : subject.facts) out += std::string(dsl::fact_name(fact)) + "\n";
  return out;
}

// LLVM numbers the calls of PTX, in comments, from the process's start.
std::string without_call_numbers(const std::string& code) {
  static constexpr std::string_view kMark = "// callseq ";
  std::string out;
  size_t from = 0;
  for (size_t at = code.find(kMark); at != std::string::npos; at = code.find(kMark, from)) {
    out.append(code, from, at + kMark.size() - from);
    from = std::min(code.find('\n', at), code.size());
  }
  return out.append(code, from);
}

Result<std::string> compile(const Row& row) {
  const Subject& subject = *row.subject;
  const auto request = test::request_for(subject.kernel, std::string(row.target->name), subject.config, subject.facts,
                                         std::string(row.target->emit));
  if (!request) return request.error();
  auto artifact = codegen::compile(request->canonical, request->debug, {});
  if (!artifact) return artifact.error();
  return without_call_numbers({reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()});
}

// What the processes share: whose turn it is, and what each of them is at.
struct Shared {
  std::atomic<size_t> next = 0;
  std::array<std::atomic<size_t>, kMostProcesses> current = {};
};

class SharedPage {
 public:
  SharedPage()
      : page_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        shared_(page_ == MAP_FAILED ? nullptr : new (page_) Shared) {}
  ~SharedPage() {
    if (shared_) munmap(page_, sizeof(Shared));
  }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  Shared* get() const { return shared_; }

 private:
  void* page_;
  Shared* shared_;
};

// A process and the file that it writes its lines to: index, hash of the kernel, hash of the code, bytes.
struct Worker {
  pid_t pid = -1;
  std::FILE* lines = nullptr;
};

// Ends the process.
[[noreturn]] void work(const std::vector<Row>& rows, const std::string& keep, Shared& shared, size_t self,
                       std::FILE* lines) {
  for (size_t i = shared.next++; i < rows.size(); i = shared.next++) {
    shared.current[self] = i;
    Outcome outcome;
    const std::string text = code_of(rows[i], outcome);
    std::fprintf(lines, "%zu %s %s %llu\n", i, outcome.kernel.c_str(), outcome.code.c_str(),
                 static_cast<unsigned long long>(outcome.bytes));
    if (keep.empty()) continue;
    std::ofstream file(keep + "/" + file_name(rows[i].name()), std::ios::binary);
    file << text;
    if (!file.flush()) _exit(2);
  }
  std::fflush(lines);
  _exit(0);
}

void read_lines(const std::vector<Row>& rows, std::FILE* lines, Outcomes& out) {
  std::rewind(lines);
  size_t index = 0;
  char kernel[64], code[64];
  unsigned long long bytes = 0;
  while (std::fscanf(lines, "%zu %63s %63s %llu", &index, kernel, code, &bytes) == 4) {
    out[rows[index].name()] = {kernel, code, bytes};
  }
}

}  // namespace

std::string file_name(const std::string& row_name) {
  std::string out = row_name;
  std::ranges::replace(out, ' ', '.');
  return out;
}

std::string kernel_hash(const Subject& subject) { return hash_of(describe(subject)); }

std::string code_of(const Row& row, Outcome& outcome) {
  outcome.kernel = kernel_hash(*row.subject);
  const auto text = compile(row);
  if (!text) {
    outcome.code = kRefused;
    return text.error().message + "\n";
  }
  outcome.code = hash_of(*text);
  outcome.bytes = text->size();
  return *text;
}

Result<Outcomes> compile_rows(const std::vector<Row>& rows, const std::string& keep) {
  codegen::warm_up();
  const SharedPage page;
  if (!page.get()) return internal_error("no memory for processes to share");
  const size_t cores = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostProcesses);
  std::fflush(nullptr);
  std::vector<Worker> workers(cores);
  for (size_t i = 0; i < cores; ++i) {
    workers[i].lines = std::tmpfile();
    workers[i].pid = workers[i].lines ? fork() : -1;
    if (workers[i].pid == 0) work(rows, keep, *page.get(), i, workers[i].lines);
  }
  Outcomes out;
  std::string problem;
  for (size_t i = 0; i < cores; ++i) {
    int status = -1;
    const bool has_ended = workers[i].pid > 0 && waitpid(workers[i].pid, &status, 0) == workers[i].pid;
    if (!has_ended || status != 0) {
      const std::string& name = rows[page.get()->current[i]].name();
      problem += (problem.empty() ? "" : "; ") + std::string("a process ended before its time, at ") + name;
    }
    if (workers[i].lines) {
      read_lines(rows, workers[i].lines, out);
      std::fclose(workers[i].lines);
    }
  }
  if (!problem.empty()) return internal_error(problem);
  return out;
}

}  // namespace kiln::replay
