// Linear forms as code: where a tile lies in its tensor.
#include "gpu/address/tile_coordinates.h"

#include <llvm/IR/Intrinsics.h>

namespace kiln::codegen::gpu {
namespace {

// In 64 bits: index arithmetic does not wrap, and LLVM narrows what it can.
class Evaluation {
 public:
  Evaluation(Context& c, const std::map<ValueId, Value*>& instead) : c_(c), b_(c.b), instead_(instead) {}

  Value* form(const Linear& form) {
    Value* out = host(form.host);
    for (const auto& [id, factor] : form.program) out = b_.CreateAdd(out, b_.CreateMul(scalar(id), host(factor)));
    return out;
  }

 private:
  Value* scalar(ValueId id) {
    const auto found = instead_.find(id);
    Value* x = found == instead_.end() ? c_.scalar(id) : found->second;
    const bool is_signed = dsl::info(c_.type(id).element).is_signed;
    return b_.CreateIntCast(x, b_.getInt64Ty(), is_signed);
  }

  // A polynomial over parameters.
  Value* host(const dsl::Expr& expr) {
    Value* out = b_.getInt64(0);
    for (const dsl::Term& term : expr.terms()) {
      Value* part = b_.getInt64(static_cast<uint64_t>(term.coefficient));
      for (const dsl::Atom& atom : term.atoms) part = b_.CreateMul(part, scalar(c_.kernel.params[atom.index].value));
      out = b_.CreateAdd(out, part);
    }
    return out;
  }

  Context& c_;
  Builder& b_;
  const std::map<ValueId, Value*>& instead_;
};

}  // namespace

Value* emit_form(Context& c, const Linear& form) { return Evaluation(c, {}).form(form); }

std::vector<Value*> tile_coordinates(Context& c, const TensorAccess& access, const std::map<ValueId, Value*>& instead) {
  Builder& b = c.b;
  Evaluation evaluation(c, instead);
  // A multiple of whatever the innermost coordinate must be one of.
  Value* outside = b.getInt32(static_cast<uint32_t>(INT32_MIN));
  std::vector<Value*> out;
  for (const TensorDim& dim : access.dims) {
    Value* wide = evaluation.form(dim.coordinate);
    Value* narrow = b.CreateTrunc(wide, b.getInt32Ty());
    if (!dim.fits_i32) {
      Value* fits = b.CreateICmpEQ(b.CreateSExt(narrow, b.getInt64Ty()), wide);
      narrow = b.CreateSelect(fits, narrow, outside);
    }
    out.push_back(narrow);
  }
  for (const Linear& guard : access.guards) {
    Value* holds = b.CreateICmpSGE(evaluation.form(guard), b.getInt64(0));
    out[0] = b.CreateSelect(holds, out[0], outside);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
