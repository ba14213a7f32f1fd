#include "binary/custom_code.h"

#include "ir/limits.h"

namespace kiln::graph {

void write_custom_code(const dsl::CustomCode& code, dsl::CborWriter& out) {
  out.array(6);
  out.bits(static_cast<uint64_t>(code.form));
  out.bytes(std::as_bytes(std::span(code.text)));
  out.text(code.entry);
  out.text(code.file);
  out.integer(code.threads);
  out.integer(code.shared_bytes);
}

dsl::CustomCode read_custom_code(CborReader& in) {
  in.record("a custom code", 6);
  dsl::CustomCode out;
  out.form = static_cast<dsl::CodeForm>(in.bits("a code's form", dsl::kCodeForms - 1));
  const auto text = in.bytes("a code's text");
  out.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  out.entry = in.text("a code's entry", kMaxName);
  out.file = in.text("a code's file", kMaxName);
  out.threads = in.integer("a code's threads");
  out.shared_bytes = in.integer("a code's shared memory");
  return out;
}

void write_codes(const std::vector<TileKernel::Code>& codes, dsl::CborWriter& out) {
  out.array(codes.size());
  for (const TileKernel::Code& each : codes) {
    out.array(2);
    out.text(each.target);
    write_custom_code(each.code, out);
  }
}

std::vector<TileKernel::Code> read_codes(CborReader& in) {
  std::vector<TileKernel::Code> out;
  for (size_t left = in.array("a kernel's codes", kMaxCodes); left > 0; --left) {
    in.record("a kernel's code", 2);
    std::string target = in.text("a code's target", kMaxName);
    out.push_back({std::move(target), read_custom_code(in)});
  }
  return out;
}

}  // namespace kiln::graph
