#include "gpu/llvm_passes/parts.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include "piece.h"

namespace kiln::codegen::gpu {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Instruction;
using llvm::Value;
using Blocks = std::vector<BasicBlock*>;

// In instructions, as lowering makes them. No kernel of the library has as many.
constexpr size_t kLongFunction = 8192, kPart = 1000, kLeastPart = kPart / 4;
constexpr size_t kCall = 16;        // what a call of a function counts for: its arguments and what it keeps
constexpr size_t kFarthest = 64;    // pieces of the line that a part may have
constexpr size_t kMostValues = 64;  // that a part takes, and gives

size_t weight(const Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
  const bool calls = call && call->getCalledFunction() && !call->getCalledFunction()->isDeclaration();
  return calls ? kCall : 1;
}

size_t weight(const Function& function) {
  size_t sum = 0;
  for (const Instruction& instruction : llvm::instructions(function)) sum += weight(instruction);
  return sum;
}

size_t weight(const Blocks& blocks) {
  size_t sum = 0;
  for (const BasicBlock* block : blocks) sum += block->size();
  return sum;
}

// Not with lines of the source, in which functions have no place; nor with tensor maps, of which they would be given
// copies.
bool may_be_parted(const Function& kernel) {
  return !kernel.getSubprogram() &&
         llvm::none_of(kernel.args(), [](const llvm::Argument& argument) { return argument.hasByValAttr(); });
}

// The blocks through which all that runs from one block to another comes, in order.
Blocks line(BasicBlock& begin, BasicBlock& end, const llvm::DominatorTree& tree) {
  Blocks out;
  for (const auto* node = tree.getNode(&end); node; node = node->getIDom()) {
    out.push_back(node->getBlock());
    if (node->getBlock() == &begin) break;
  }
  return {out.rbegin(), out.rend()};
}

// Variables in memory would tie the parts together.
void promote_variables(Function& kernel) {
  std::vector<llvm::AllocaInst*> places;
  for (Instruction& instruction : kernel.getEntryBlock()) {
    auto* place = llvm::dyn_cast<llvm::AllocaInst>(&instruction);
    if (place && llvm::isAllocaPromotable(place)) places.push_back(place);
  }
  llvm::DominatorTree tree(kernel);
  llvm::PromoteMemToReg(places, tree);
}

// Of the loops from the innermost ones out, and of the kernel: to its end, not to the way out for programs that the
// grid has not.
std::vector<Blocks> lines(Function& kernel) {
  const llvm::DominatorTree tree(kernel);
  const llvm::LoopInfo loops(tree);
  std::vector<Blocks> out;
  const llvm::SmallVector<llvm::Loop*, 4> from_outside = loops.getLoopsInPreorder();
  for (const llvm::Loop* loop : llvm::reverse(from_outside)) {
    if (BasicBlock* latch = loop->getLoopLatch()) out.push_back(line(*loop->getHeader(), *latch, tree));
  }
  if (BasicBlock* begin = kernel.getEntryBlock().getSingleSuccessor()) {
    Blocks longest;
    for (BasicBlock& block : kernel) {
      if (!llvm::isa<llvm::ReturnInst>(block.getTerminator()) || !tree.dominates(begin, &block)) continue;
      Blocks one = line(*begin, block, tree);
      if (weight(one) > weight(longest)) longest = std::move(one);
    }
    out.push_back(std::move(longest));
  }
  return out;
}

// Where a part may begin: behind the phis of each block that is in no part yet, and in its middle where it is long. The
// first block, which may be the head of a loop, stays where it is.
Blocks cut(const Function& kernel, const Blocks& blocks) {
  Blocks out;
  for (BasicBlock* block : blocks) {
    if (block->getParent() != &kernel) continue;
    BasicBlock* head = block;
    const bool stays = block == blocks.front() || llvm::isa<llvm::PHINode>(block->front());
    if (stays) head = block->splitBasicBlock(block->getFirstNonPHIIt(), "cut");
    out.push_back(head);
    std::vector<Instruction*> middles;
    size_t sum = 0;
    for (Instruction& instruction : *head) {
      if (sum >= kPart) middles.push_back(&instruction);
      sum = sum >= kPart ? weight(instruction) : sum + weight(instruction);
    }
    // The last one first: what stands behind moves.
    for (size_t i = middles.size(); i-- > 0;) middles[i]->getParent()->splitBasicBlock(middles[i], "cut");
    for (Instruction* middle : middles) out.push_back(middle->getParent());
  }
  return out;
}

bool is_worth_a_part(const Piece& piece) {
  const auto is_place = [](const Value* input) { return llvm::isa<llvm::AllocaInst>(input); };
  return piece.inputs().size() <= kMostValues && piece.outputs().size() <= kMostValues &&
         llvm::none_of(piece.inputs(), is_place);
}

void outline(Function& kernel, Piece& piece, BasicBlock& first, BasicBlock& next) {
  llvm::IRBuilder<> ir(kernel.getContext());
  std::vector<llvm::Type*> taken, given;
  for (const Value* input : piece.inputs()) taken.push_back(input->getType());
  for (const Instruction* output : piece.outputs()) given.push_back(output->getType());
  llvm::Type* result = given.empty()       ? ir.getVoidTy()
                       : given.size() == 1 ? given[0]
                                           : llvm::StructType::get(kernel.getContext(), given);
  auto* part = Function::Create(llvm::FunctionType::get(result, taken, false), Function::InternalLinkage,
                                kernel.getName() + ".part", kernel.getParent());
  part->setAttributes(llvm::AttributeList().addFnAttributes(
      kernel.getContext(), llvm::AttrBuilder(kernel.getContext(), kernel.getAttributes().getFnAttrs())));
  for (auto attribute : {llvm::Attribute::NoInline, llvm::Attribute::NoRecurse, llvm::Attribute::Convergent}) {
    part->addFnAttr(attribute);
  }
  part->addFnAttr(kPartAttribute);
  auto* caller = BasicBlock::Create(kernel.getContext(), "part", &kernel, &first);
  piece.enter_by(*caller);
  ir.SetInsertPoint(caller);
  llvm::CallInst* call = ir.CreateCall(part, llvm::SmallVector<Value*>(piece.inputs().begin(), piece.inputs().end()));
  call->setConvergent();
  for (unsigned i = 0; i < given.size(); ++i) {
    piece.replace_output(i, given.size() == 1 ? *call : *ir.CreateExtractValue(call, i));
  }
  ir.CreateBr(&next);
  ir.SetInsertPoint(&piece.move_into(*part));
  Value* all = given.empty() ? nullptr : llvm::PoisonValue::get(result);
  for (unsigned i = 0; i < given.size(); ++i) {
    all = given.size() == 1 ? piece.outputs()[0] : ir.CreateInsertValue(all, piece.outputs()[i], i);
  }
  given.empty() ? ir.CreateRetVoid() : ir.CreateRet(all);
}

// The number of the place behind the part that was made, or the one behind `first` where none can begin there.
size_t make_part(Function& kernel, const Blocks& places, size_t first) {
  size_t sum = 0;
  for (size_t next = first + 1; next < places.size() && next - first <= kFarthest; ++next) {
    sum += places[next - 1]->size();
    if (sum < kPart && next - first < kFarthest && next + 1 < places.size()) continue;
    Piece piece(*places[first], *places[next]);
    if (!piece.find_blocks() || piece.returns() || piece.instructions() < kLeastPart) continue;
    piece.find_values();
    if (!is_worth_a_part(piece)) continue;
    outline(kernel, piece, *places[first], *places[next]);
    return next;
  }
  return first + 1;
}

}  // namespace

void split_into_parts(Function& kernel) {
  if (weight(kernel) < kLongFunction || !may_be_parted(kernel)) return;
  promote_variables(kernel);
  for (const Blocks& blocks : lines(kernel)) {
    const Blocks places = cut(kernel, blocks);
    for (size_t at = 0; at < places.size();) at = make_part(kernel, places, at);
  }
}

}  // namespace kiln::codegen::gpu
