#include "plan/kernel_head.h"

#include <array>
#include <utility>
#include <vector>

#include "binary/cbor_reader.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/cbor_writer.h"

namespace kiln::graph {
namespace {

using Bytes = std::span<const std::byte>;

// Sections as encode_kernel() has them: four bytes of size, lowest first, then so many.
constexpr size_t kSizeBytes = 4;

Bytes take_section(Bytes& rest) {
  size_t size = 0;
  if (rest.size() < kSizeBytes) throw BadBytes{"a section is cut short"};
  for (size_t i = 0; i < kSizeBytes; ++i) size |= static_cast<size_t>(rest[i]) << (8 * i);
  if (rest.size() - kSizeBytes < size) throw BadBytes{"a section is cut short"};
  const Bytes out = rest.subspan(kSizeBytes, size);
  rest = rest.subspan(kSizeBytes + size);
  return out;
}

void append(std::vector<std::byte>& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

void append_section(std::vector<std::byte>& out, const std::vector<std::byte>& section) {
  for (size_t i = 0; i < kSizeBytes; ++i) out.push_back(static_cast<std::byte>(section.size() >> (8 * i) & 0xff));
  append(out, section);
}

// Walks through ops, however deep, for the codes of some.
class OpCodes {
 public:
  explicit OpCodes(Bytes body) : in_(body) {
    ops(0);
    if (!in_.at_end()) throw BadBytes{"there are bytes behind the ops"};
  }

  bool has_loop = false, prints = false;

 private:
  // What is deeper is refused by the reader of whole kernels too.
  static constexpr int kMostDepth = 256;

  void ops(int depth) {
    if (depth > kMostDepth) throw BadBytes{"the ops are nested too deeply"};
    for (size_t left = in_.array("the ops"); left > 0; --left) {
      const size_t fields = in_.array("an op");
      if (fields < 4) throw BadBytes{"an op is too short"};
      const auto code = static_cast<dsl::OpCode>(in_.bits("an op's code", dsl::kOpCount - 1));
      has_loop = has_loop || code == dsl::OpCode::kFor || code == dsl::OpCode::kWhile;
      prints = prints || code == dsl::OpCode::kPrint;
      for (int i = 0; i < 3; ++i) in_.item("a field of an op", true);
      for (size_t region = 4; region < fields; ++region) {
        in_.record("a region", 2);
        in_.item("its arguments", true);
        ops(depth + 1);
      }
    }
  }

  CborReader in_;
};

constexpr size_t kOpsField = 6, kNamesField = 5, kLinesField = 6;

std::vector<Bytes> fields_of(Bytes section, size_t least) {
  CborReader in(section);
  std::vector<Bytes> out(in.array("a section"));
  if (out.size() < least) throw BadBytes{"a section is too short"};
  for (Bytes& field : out) field = in.item("a field", true);
  if (!in.at_end()) throw BadBytes{"there are bytes behind a section"};
  return out;
}

std::vector<std::byte> record_of(const std::vector<Bytes>& fields) {
  std::vector<std::byte> out;
  dsl::CborWriter(out).array(fields.size());
  for (const Bytes field : fields) append(out, field);
  return out;
}

// So many texts of a list: parameters are the first values.
std::vector<std::byte> first_of(Bytes list, size_t count) {
  CborReader in(list);
  if (in.array("the names of values") < count) throw BadBytes{"a parameter lacks its name"};
  std::vector<std::byte> out;
  dsl::CborWriter(out).array(count);
  for (size_t i = 0; i < count; ++i) append(out, in.item("a name"));
  return out;
}

}  // namespace

std::optional<PlannedKernel> read_kernel_head(Bytes encoded) {
  Bytes rest = encoded;
  std::vector<Bytes> canonical = fields_of(take_section(rest), kOpsField + 1);
  const Bytes debug_section = take_section(rest);
  if (!rest.empty()) throw BadBytes{"there are bytes behind the debug section"};
  if (debug_section.empty()) return std::nullopt;
  std::vector<Bytes> debug = fields_of(debug_section, kLinesField + 1);
  const OpCodes codes(canonical[kOpsField]);
  if (codes.prints) return std::nullopt;

  constexpr std::array<std::byte, 1> kNothing = {std::byte{0x80}};  // an empty list
  const std::vector<std::byte> names = first_of(debug[kNamesField], CborReader(canonical[2]).array("the parameters"));
  canonical[kOpsField] = kNothing;
  debug[kNamesField] = names;
  debug[kLinesField] = kNothing;
  std::vector<std::byte> head;
  append_section(head, record_of(canonical));
  append_section(head, record_of(debug));
  auto kernel = dsl::decode_kernel(head);
  if (!kernel) throw BadBytes{kernel.error().message};
  if (dsl::reports_lines(*kernel)) return std::nullopt;
  PlannedKernel out;
  out.kernel = std::move(*kernel);
  out.encoded.assign(encoded.begin(), encoded.end());
  out.has_loop = codes.has_loop;
  return out;
}

}  // namespace kiln::graph
