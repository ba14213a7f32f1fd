// Linear forms as code: where a tile lies in its tensor.
#include "gpu/address/tile_coordinates.h"

#include <llvm/IR/Intrinsics.h>

namespace kiln::codegen::gpu {
namespace {

// In 64 bits: index arithmetic does not wrap, and LLVM narrows what it can.
class Evaluation {
 public:
  Evaluation(Context& ctx, const std::map<ValueId, Value*>& instead) : ctx_(ctx), ir_(ctx.ir), instead_(instead) {}

  Value* form(const Linear& form) {
    Value* out = host(form.host);
    for (const auto& [id, factor] : form.program) out = ir_.CreateAdd(out, ir_.CreateMul(scalar(id), host(factor)));
    return out;
  }

 private:
  Value* scalar(ValueId id) {
    const auto found = instead_.find(id);
    Value* x = found == instead_.end() ? ctx_.scalar(id) : found->second;
    const bool is_signed = dsl::info(ctx_.type(id).element).is_signed;
    return ir_.CreateIntCast(x, ir_.getInt64Ty(), is_signed);
  }

  // A polynomial over parameters.
  Value* host(const dsl::Expr& expr) {
    Value* out = ir_.getInt64(0);
    for (const dsl::Term& term : expr.terms()) {
      Value* part = ir_.getInt64(static_cast<uint64_t>(term.coefficient));
      for (const dsl::Atom& atom : term.atoms) part = ir_.CreateMul(part, scalar(ctx_.kernel.params[atom.index].value));
      out = ir_.CreateAdd(out, part);
    }
    return out;
  }

  Context& ctx_;
  Builder& ir_;
  const std::map<ValueId, Value*>& instead_;
};

}  // namespace

Value* emit_form(Context& ctx, const Linear& form) { return Evaluation(ctx, {}).form(form); }

std::vector<Value*> tile_coordinates(Context& ctx, const TensorAccess& access,
                                     const std::map<ValueId, Value*>& instead) {
  Builder& ir = ctx.ir;
  Evaluation evaluation(ctx, instead);
  // A multiple of whatever the innermost coordinate must be one of.
  Value* outside = ir.getInt32(static_cast<uint32_t>(INT32_MIN));
  std::vector<Value*> out;
  for (const TensorDim& dim : access.dims) {
    Value* wide = evaluation.form(dim.coordinate);
    Value* narrow = ir.CreateTrunc(wide, ir.getInt32Ty());
    if (!dim.fits_i32) {
      Value* fits = ir.CreateICmpEQ(ir.CreateSExt(narrow, ir.getInt64Ty()), wide);
      narrow = ir.CreateSelect(fits, narrow, outside);
    }
    out.push_back(narrow);
  }
  for (const Linear& guard : access.guards) {
    Value* holds = ir.CreateICmpSGE(evaluation.form(guard), ir.getInt64(0));
    out[0] = ir.CreateSelect(holds, out[0], outside);
  }
  return out;
}

}  // namespace kiln::codegen::gpu
