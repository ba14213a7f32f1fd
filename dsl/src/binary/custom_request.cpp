// Requests for custom kernels: [tag, declaration as `.kiln` text, form, text, entry, threads, shared bytes, target],
// and the file's name beside it.
#include <algorithm>
#include <array>

#include "binary/binary_format.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl {
namespace {

constexpr const char* kCustomTag = "kiln-custom-1";
constexpr size_t kCustomFields = 8;
constexpr size_t kMostText = size_t{8} << 20;
constexpr std::array<std::string_view, kCodeForms> kFormWords = {"llvm", "ptx", "amd"};
constexpr int64_t kMostThreads = 1024, kMostShared = int64_t{1} << 20;

std::vector<std::byte> custom_head() {
  std::vector<std::byte> out;
  CborWriter writer(out);
  writer.array(kCustomFields);
  writer.text(kCustomTag);
  return out;
}

CustomRequest read_custom(std::span<const std::byte> canonical, std::span<const std::byte> debug) {
  const Json record = from_bytes(canonical, "the canonical section");
  if (as_text(field(record, 0), "the tag") != kCustomTag) throw BadBytes{"it is of another version"};
  if (as_array(record, "the request", kCustomFields).size() != kCustomFields) throw BadBytes{"it is too short"};
  auto declaration = parse(as_text(field(record, 1), "the declaration"), "the declaration");
  if (!declaration) throw BadBytes{declaration.error().message};
  if (auto valid = verify(*declaration); !valid) throw BadBytes{valid.error().message};
  CustomRequest out{std::move(*declaration), {}, as_text(field(record, 7), "the target")};
  out.code.form = static_cast<CodeForm>(as_uint(field(record, 2), "the form", kCodeForms - 1));
  out.code.text = as_text(field(record, 3), "the code");
  out.code.entry = as_text(field(record, 4), "the entry");
  out.code.threads = as_int(field(record, 5), "the threads");
  out.code.shared_bytes = as_int(field(record, 6), "the shared memory");
  if (!debug.empty()) out.code.file = as_text(from_bytes(debug, "the debug section"), "the file");
  return out;
}

}  // namespace

// Tracing leaves the constants that a grid was written with.
bool only_declares(const Kernel& kernel) { return std::ranges::all_of(kernel.body.ops, is_pure); }

Kernel declaration_of(const Kernel& kernel) {
  Kernel out = kernel;
  out.body.ops.clear();
  out.files.clear();
  out.space.clear();
  out.target_defaults.clear();
  return out;
}

Result<void> check_custom_request(const CustomRequest& request) {
  const std::string name = "custom kernel `" + request.declaration.name + "`";
  const CustomCode& code = request.code;
  if (!only_declares(request.declaration)) return invalid_argument(name + ": its declaration has ops");
  if (!request.declaration.constexprs.empty()) {
    return invalid_argument(name + ": `" + request.declaration.constexprs[0].name +
                            "` is a constexpr, which its text cannot take: make it a parameter");
  }
  if (code.text.empty()) return invalid_argument(name + " has no code");
  if (code.text.size() > kMostText) {
    return invalid_argument(name + " has " + std::to_string(code.text.size()) + " bytes of code; the most are " +
                            std::to_string(kMostText));
  }
  if (code.threads < 1 || code.threads > kMostThreads) {
    return invalid_argument(name + ": blocks have 1 to " + std::to_string(kMostThreads) + " threads, not " +
                            std::to_string(code.threads));
  }
  if (code.shared_bytes < 0 || code.shared_bytes > kMostShared) {
    return invalid_argument(name + ": " + std::to_string(code.shared_bytes) + " bytes of shared memory");
  }
  return {};
}

std::string_view name_of(CodeForm form) {
  switch (form) {
    case CodeForm::kLlvmIr:
      return "LLVM IR";
    case CodeForm::kPtx:
      return "PTX";
    case CodeForm::kAmdAssembly:
      return "assembly of AMD's GPUs";
  }
  return "";
}

std::string_view word_of(CodeForm form) { return kFormWords[static_cast<size_t>(form)]; }

std::optional<CodeForm> parse_code_form(std::string_view word) {
  const auto found = std::ranges::find(kFormWords, word);
  if (found == kFormWords.end()) return std::nullopt;
  return static_cast<CodeForm>(found - kFormWords.begin());
}

Result<RequestBytes> encode_custom_request(const CustomRequest& request) {
  if (auto fine = check_custom_request(request); !fine) return fine.error();
  Kernel declaration = request.declaration;
  declaration.body.ops.clear();
  declaration.files.clear();
  RequestBytes out{custom_head(), {}};
  CborWriter writer(out.canonical);
  writer.text(print(declaration));
  writer.bits(static_cast<uint64_t>(request.code.form));
  writer.text(request.code.text);
  writer.text(request.code.entry);
  writer.integer(request.code.threads);
  writer.integer(request.code.shared_bytes);
  writer.text(request.target);
  CborWriter(out.debug).text(request.code.file);
  return out;
}

bool is_custom_request(std::span<const std::byte> canonical) {
  const std::vector<std::byte> magic = custom_head();
  return canonical.size() >= magic.size() && std::ranges::equal(canonical.first(magic.size()), magic);
}

Result<CustomRequest> decode_custom_request(std::span<const std::byte> canonical, std::span<const std::byte> debug) {
  try {
    CustomRequest out = read_custom(canonical, debug);
    if (auto fine = check_custom_request(out); !fine) return fine.error();
    return out;
  } catch (const BadBytes& bad) {
    return invalid_argument("request for a custom kernel: " + bad.what);
  }
}

}  // namespace kiln::dsl
