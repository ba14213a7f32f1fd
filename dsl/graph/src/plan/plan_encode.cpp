// Plan to CBOR; see plan_format.h for the layout.
#include "binary/custom_code.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/cbor_writer.h"
#include "kiln/dsl/expr_binary.h"
#include "kiln/graph/plan.h"
#include "plan/plan_format.h"

namespace kiln::graph {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& bytes) : out_(bytes) {}

  void write(const Plan& plan) {
    out_.array(kPlanFields);
    out_.text(kPlanTag);
    out_.text(plan.name);
    out_.text(plan.target);
    write(plan.dims);
    write(plan.inputs);
    write(plan.outputs);
    out_.array(plan.in_place.size());
    for (const uint32_t input : plan.in_place) out_.bits(uint64_t{input == kNone ? 0 : input + 1});
    write(plan.kernels);
    write(plan.buffers);
    write(plan.loops);
    write(plan.launches);
    write(plan.constants);
    write(plan.arena_bytes);
    write(plan.log);
  }

 private:
  template <class Item>
  void write(const std::vector<Item>& items) {
    out_.array(items.size());
    for (const Item& item : items) write(item);
  }

  void write(const std::vector<std::byte>& bytes) { out_.bytes(bytes); }
  void write(const std::string& text) { out_.text(text); }
  void write(const Expr& expr) { dsl::write_expr(expr, out_); }

  void write(const DimInfo& dim) {
    out_.array(4);
    write(dim.name);
    for (const int64_t number : {dim.low, dim.high, dim.multiple}) out_.integer(number);
  }

  void write(const PlannedTensor& tensor) {
    out_.array(2 + tensor.type.shape.size());
    write(tensor.name);
    out_.bits(static_cast<uint64_t>(tensor.type.element));
    for (const Expr& extent : tensor.type.shape) write(extent);
  }

  void write(const PlannedKernel& kernel) {
    out_.array(kernel.code ? 3 : 2);
    write(kernel.encoded.empty() ? dsl::encode_kernel(kernel.kernel) : kernel.encoded);
    out_.array(2 * kernel.constexprs.size());
    for (const auto& [name, value] : kernel.constexprs) {
      write(name);
      out_.integer(value);
    }
    if (kernel.code) write_custom_code(*kernel.code, out_);
  }

  void write(const PlannedBuffer& buffer) {
    out_.array(3);
    out_.bits(static_cast<uint64_t>(buffer.home));
    if (buffer.home == PlannedBuffer::Home::kArena)
      write(buffer.offset);
    else
      out_.bits(buffer.index);
    write(buffer.bytes);
  }

  void write(const PlannedLoop& loop) {
    out_.array(4);
    out_.bits(loop.first);
    out_.bits(loop.count);
    write(loop.length);
    out_.bits(loop.counter);
  }

  void write(const PlannedLaunch& launch) {
    out_.array(6);
    out_.bits(launch.kernel);
    write(launch.arguments);
    write(launch.name);
    write(launch.place);
    write(launch.moved);
    out_.array(launch.ops.size());
    for (const uint32_t op : launch.ops) out_.bits(op);
  }

  void write(const PlannedArgument& argument) {
    const bool is_buffer = argument.kind == PlannedArgument::Kind::kBuffer;
    out_.array(is_buffer ? 3 : 2);
    out_.bits(static_cast<uint64_t>(argument.kind));
    if (is_buffer) out_.bits(argument.buffer);
    write(is_buffer ? argument.offset : argument.scalar);
  }

  dsl::CborWriter out_;
};

}  // namespace

std::vector<std::byte> code_bytes(const dsl::CustomCode& code) {
  std::vector<std::byte> out;
  dsl::CborWriter writer(out);
  write_custom_code(code, writer);
  return out;
}

std::vector<std::byte> encode_plan(const Plan& plan) {
  std::vector<std::byte> out;
  Writer(out).write(plan);
  return out;
}

}  // namespace kiln::graph
