#include "cpu/f16_bits.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/ValueHandle.h>

namespace kiln::codegen::cpu {
namespace {

using llvm::Instruction;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

bool is_f16(const Value* x) { return x->getType()->getScalarType()->isHalfTy(); }
llvm::Type* bits_type(const llvm::Type* type) {
  return type->getWithNewType(llvm::Type::getInt16Ty(type->getContext()));
}

class Rewriting {
 public:
  explicit Rewriting(llvm::Function& function) : function_(function) {}

  void run() {
    llvm::SmallVector<Instruction*> all;
    for (Instruction& op : llvm::instructions(function_)) all.push_back(&op);
    for (Instruction* op : all) {
      if (is_f16(op)) bits(op);
    }
    for (auto [phi, incoming] : phis_) {
      for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
        incoming->addIncoming(bits(phi->getIncomingValue(i)), phi->getIncomingBlock(i));
      }
    }
    for (Instruction* op : all) {
      if (!replaced_.contains(op)) rewrite_user(*op);
    }
    for (Instruction* op : all) {
      if (!replaced_.contains(op)) continue;
      op->replaceAllUsesWith(llvm::PoisonValue::get(op->getType()));
      op->eraseFromParent();
    }
  }

 private:
  Value* bits(Value* x) {
    if (auto* constant = llvm::dyn_cast<llvm::Constant>(x)) {
      return llvm::ConstantExpr::getBitCast(constant, bits_type(x->getType()));
    }
    if (Value* known = bits_.lookup(x)) return known;
    auto* op = llvm::dyn_cast<Instruction>(x);
    Value* out = op ? made_of(*op) : nullptr;
    if (out) {
      replaced_.insert(op);
    } else {
      Builder ir(op ? &*op->getInsertionPointAfterDef().value() : &*function_.getEntryBlock().getFirstInsertionPt());
      out = ir.CreateBitCast(x, bits_type(x->getType()));
    }
    bits_[x] = out;
    return out;
  }

  // The same of bits; null for what is no copy or choice of elements.
  Value* made_of(Instruction& op) {
    Builder ir(&op);
    llvm::Type* type = bits_type(op.getType());
    const auto operand = [&](unsigned i) { return bits(op.getOperand(i)); };
    switch (op.getOpcode()) {
      case Instruction::Load: {
        Instruction* load = op.clone();
        load->mutateType(type);
        return ir.Insert(load);
      }
      case Instruction::PHI: {
        auto* phi = ir.CreatePHI(type, op.getNumOperands());
        phis_.emplace_back(llvm::cast<llvm::PHINode>(&op), phi);
        return phi;
      }
      case Instruction::BitCast:
        return is_f16(op.getOperand(0)) ? ir.CreateBitCast(operand(0), type) : ir.CreateBitCast(op.getOperand(0), type);
      case Instruction::Select:
        return ir.CreateSelect(op.getOperand(0), operand(1), operand(2));
      case Instruction::ShuffleVector:
        return ir.CreateShuffleVector(operand(0), operand(1), llvm::cast<llvm::ShuffleVectorInst>(op).getShuffleMask());
      case Instruction::InsertElement:
        return ir.CreateInsertElement(operand(0), operand(1), op.getOperand(2));
      case Instruction::ExtractElement:
        return ir.CreateExtractElement(operand(0), op.getOperand(1));
      case Instruction::FNeg:
        return ir.CreateXor(operand(0), llvm::ConstantInt::get(type, 0x8000));
      case Instruction::Call:
        return made_of_call(ir, op, type);
      default:
        return nullptr;
    }
  }

  Value* made_of_call(Builder& ir, Instruction& op, llvm::Type* type) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&op);
    const auto align = [&] { return call->getParamAlign(0).valueOrOne(); };
    Instruction* out = nullptr;
    switch (call ? call->getIntrinsicID() : llvm::Intrinsic::not_intrinsic) {
      case llvm::Intrinsic::masked_load:
        out = ir.CreateMaskedLoad(type, op.getOperand(0), align(), op.getOperand(1), bits(op.getOperand(2)));
        break;
      case llvm::Intrinsic::masked_gather:
        out = ir.CreateMaskedGather(type, op.getOperand(0), align(), op.getOperand(1), bits(op.getOperand(2)));
        break;
      default:
        return nullptr;
    }
    out->copyMetadata(op);
    return out;
  }

  // What takes values of f16 and gives none, or one that is no copy.
  void rewrite_user(Instruction& op) {
    if (llvm::none_of(op.operands(), [](const llvm::Use& use) { return is_f16(use); })) {
      auto* place = llvm::dyn_cast<llvm::AllocaInst>(&op);
      if (place && place->getAllocatedType()->getScalarType()->isHalfTy()) {
        place->setAllocatedType(bits_type(place->getAllocatedType()));
      }
      return;
    }
    Builder ir(&op);
    if (llvm::isa<llvm::StoreInst>(op)) return op.setOperand(0, bits(op.getOperand(0)));
    if (op.getOpcode() == Instruction::BitCast) {
      Value* cast = ir.CreateBitCast(bits(op.getOperand(0)), op.getType());
      op.replaceAllUsesWith(cast);
      op.eraseFromParent();
      return;
    }
    Instruction* instead = nullptr;
    if (const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&op)) {
      const auto align = [&] { return call->getParamAlign(1).valueOrOne(); };
      if (call->getIntrinsicID() == llvm::Intrinsic::masked_store) {
        instead = ir.CreateMaskedStore(bits(op.getOperand(0)), op.getOperand(1), align(), op.getOperand(2));
      } else if (call->getIntrinsicID() == llvm::Intrinsic::masked_scatter) {
        instead = ir.CreateMaskedScatter(bits(op.getOperand(0)), op.getOperand(1), align(), op.getOperand(2));
      }
    }
    if (instead) {
      instead->copyMetadata(op);
      op.eraseFromParent();
      return;
    }
    for (llvm::Use& use : op.operands()) {
      if (is_f16(use)) use.set(ir.CreateBitCast(bits(use), use->getType()));
    }
  }

  llvm::Function& function_;
  // A bitcast that is rewritten may be the bits of another value: handles follow it.
  llvm::DenseMap<Value*, llvm::WeakTrackingVH> bits_;
  llvm::DenseSet<Instruction*> replaced_;
  llvm::SmallVector<std::pair<llvm::PHINode*, llvm::PHINode*>> phis_;
};

}  // namespace

void hold_f16_as_bits(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) Rewriting(function).run();
  }
}

}  // namespace kiln::codegen::cpu
