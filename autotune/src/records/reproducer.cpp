#include "records/reproducer.h"

#include <filesystem>

#include "kiln/autotune/runner_protocol.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"

namespace kiln::autotune {
namespace {

namespace fs = std::filesystem;

Result<void> write_text(const std::string& path, const std::string& text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

std::string explanation(const WrongResult& wrong, const std::string& directory) {
  return "Kernel `" + wrong.kernel.name +
         "` gave another result with another config.\n\n    expected: " + to_string(wrong.expected_config) +
         "\n    actual:   " + to_string(wrong.actual_config) + "\n    target:   " + wrong.actual.metadata.target +
         "\n\n" + wrong.difference +
         "\n\nBoth artifacts (`expected`, `actual`: code, and metadata in .json) once more on the same inputs:\n\n"
         "    kiln-runner --kind " +
         wrong.device + " --reproduce " + directory + "\n";
}

Result<void> write_all(const std::string& temporary, const std::string& directory, const WrongResult& wrong) {
  const std::string workload = workload_to_json(wrong.workload).dump(2) + "\n";
  if (auto done = write_text(temporary + "/workload.json", workload); !done) return done;
  if (auto done = write_text(temporary + "/kernel.kiln", dsl::print(wrong.kernel)); !done) return done;
  if (auto done = write_file(temporary + "/kernel.bin", dsl::encode_kernel(wrong.kernel)); !done) return done;
  if (auto done = write_artifact(temporary + "/expected", wrong.expected); !done) return done;
  if (auto done = write_artifact(temporary + "/actual", wrong.actual); !done) return done;
  return write_text(temporary + "/README.txt", explanation(wrong, directory));
}

// The same for the same wrong result, so that a repeated run keeps it once.
std::string name_of(const WrongResult& wrong) {
  const std::string what = dsl::print(wrong.kernel) + workload_to_json(wrong.workload).dump() +
                           to_string(wrong.expected_config) + to_string(wrong.actual_config) +
                           wrong.actual.metadata.target;
  return wrong.kernel.name + "-" + to_hex(request_key("", std::as_bytes(std::span(what)))).substr(0, 12);
}

}  // namespace

std::string default_reproducer_dir() {
  const char* data = ::secure_getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/kiln/reproducers";
  const char* home = ::secure_getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/share/kiln/reproducers" : "";
}

Result<std::string> write_reproducer(const std::string& parent, const WrongResult& wrong) {
  std::error_code status;
  fs::create_directories(parent, status);
  std::string temporary = parent + "/.tmp-XXXXXX";
  if (::mkdtemp(temporary.data()) == nullptr) {
    return error(ErrorCode::kResourceExhausted, parent + ": no directory can be made there");
  }
  const std::string directory = parent + "/" + name_of(wrong);
  auto written = write_all(temporary, directory, wrong);
  if (written) fs::rename(temporary, directory, status);
  // A directory that is there already is this one.
  if (!written || status) fs::remove_all(temporary, status);
  if (!written) return written.error();
  return directory;
}

}  // namespace kiln::autotune
