// Places of buffers in shared memory.
//
// before                                             after
//   %a = call @kiln.shared.buffer(i32 0, i64 512)      %a = getelementptr i8, @kiln_shared, 0
//   store …, %a      ; marked: write of 0              store …, %a
//   %x = load %a     ; marked: read of 0               %x = load %a
//   %b = call @kiln.shared.buffer(i32 1, i64 256)      %b = getelementptr i8, @kiln_shared, 0    ; %a is dead here
//
// A buffer is alive from where it is made to the last access that may follow. Buffers that are alive at one
// point get bytes of their own; the largest choose first. So do small ones, the parts of reductions, as far as they are
// few: bytes cost less than the barrier between two uses.
#include "gpu/llvm_passes/allocate_shared.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

// The swizzle of panels repeats every 1024 bytes; smaller tiles are one repeat of theirs, of a power of two.
constexpr int64_t kLeastAlignment = 128, kMostAlignment = 1024;
constexpr int64_t kSmall = 512, kMaxForSmall = 4096;  // of one buffer, of all that are kept apart
constexpr char kMemory[] = "kiln_shared";

using Buffers = std::set<int>;

struct Call {
  llvm::CallInst* instruction;
  int64_t bytes;
};

std::map<int, Call> find_calls(llvm::Function& function) {
  std::map<int, Call> out;
  llvm::Function* maker = function.getParent()->getFunction(kBufferFunction);
  if (!maker) return out;
  const auto number = [](llvm::Value* x) { return llvm::cast<llvm::ConstantInt>(x)->getSExtValue(); };
  for (llvm::User* user : maker->users()) {
    auto* call = llvm::cast<llvm::CallInst>(user);
    out[static_cast<int>(number(call->getArgOperand(0)))] = {call, number(call->getArgOperand(1))};
  }
  return out;
}

// The number of the buffer that an instruction makes.
std::optional<int> made_buffer(const llvm::Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
  const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
  if (!callee || callee->getName() != kBufferFunction) return std::nullopt;
  return static_cast<int>(llvm::cast<llvm::ConstantInt>(call->getArgOperand(0))->getSExtValue());
}

// Walks a block backwards from what is alive behind it; `meet` sees what is alive at once.
template <class Meet>
Buffers alive_before(const llvm::BasicBlock& block, Buffers alive, const Meet& meet) {
  meet(alive);
  for (const llvm::Instruction& instruction : llvm::reverse(block)) {
    if (const auto made = made_buffer(instruction)) alive.erase(*made);
    const auto mark = shared_mark(instruction);
    if (!mark) continue;
    alive.insert(mark->buffer);
    meet(alive);
  }
  return alive;
}

// What is alive behind each block.
std::map<const llvm::BasicBlock*, Buffers> alive_behind(const llvm::Function& function) {
  std::map<const llvm::BasicBlock*, Buffers> before, behind;
  for (bool changed = true; changed;) {
    changed = false;
    for (const llvm::BasicBlock& block : llvm::reverse(function)) {
      Buffers& out = behind[&block];
      for (const llvm::BasicBlock* next : llvm::successors(&block))
        out.insert(before[next].begin(), before[next].end());
      Buffers in = alive_before(block, out, [](const Buffers&) {});
      changed = changed || in != before[&block];
      before[&block] = std::move(in);
    }
  }
  return behind;
}

std::map<int, Buffers> find_neighbours(const llvm::Function& function) {
  std::map<int, Buffers> out;
  const auto behind = alive_behind(function);
  for (const llvm::BasicBlock& block : function) {
    alive_before(block, behind.at(&block), [&](const Buffers& alive) {
      for (int buffer : alive) out[buffer].insert(alive.begin(), alive.end());
    });
  }
  return out;
}

int64_t round_up(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

void keep_small_apart(const std::map<int, Call>& calls, std::map<int, Buffers>& neighbours) {
  Buffers small;
  int64_t bytes = 0;
  for (const auto& [number, call] : calls) {
    if (call.bytes > kSmall || bytes + round_up(call.bytes, kLeastAlignment) > kMaxForSmall) continue;
    small.insert(number);
    bytes += round_up(call.bytes, kLeastAlignment);
  }
  for (int number : small) neighbours[number].insert(small.begin(), small.end());
}

// The lowest place that no placed neighbour has.
int64_t find_place(int64_t bytes, const Buffers& neighbours, const std::map<int, SharedRange>& placed) {
  std::vector<SharedRange> taken;
  for (int other : neighbours) {
    if (auto found = placed.find(other); found != placed.end()) taken.push_back(found->second);
  }
  std::ranges::sort(taken, {}, &SharedRange::offset);
  const auto size = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  const int64_t alignment = std::clamp(size, kLeastAlignment, kMostAlignment);
  int64_t offset = 0;
  for (const SharedRange& range : taken) {
    if (offset + bytes <= range.offset) break;
    offset = std::max(offset, round_up(range.offset + range.bytes, alignment));
  }
  return offset;
}

// The largest first, from `first` on: where their memory ends.
int64_t place(std::vector<int> numbers, const std::map<int, Call>& calls, const std::map<int, Buffers>& neighbours,
              int64_t first, std::map<int, SharedRange>& placed) {
  std::ranges::stable_sort(numbers, std::greater<>(), [&](int number) { return calls.at(number).bytes; });
  std::map<int, SharedRange> own;
  int64_t end = 0;
  for (int number : numbers) {
    const auto found = neighbours.find(number);
    const int64_t bytes = calls.at(number).bytes;
    own[number] = {find_place(bytes, found == neighbours.end() ? Buffers() : found->second, own), bytes};
    end = std::max(end, own[number].offset + bytes);
  }
  for (const auto& [number, range] : own) placed[number] = {first + range.offset, range.bytes};
  return first + end;
}

llvm::GlobalVariable* shared_memory(llvm::Module& module) {
  auto* type = llvm::ArrayType::get(llvm::Type::getInt8Ty(module.getContext()), 0);
  auto* out = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::ExternalLinkage, nullptr, kMemory,
                                       nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  out->setAlignment(llvm::Align(1024));  // what swizzled tiles of asynchronous copies ask for
  return out;
}

}  // namespace

SharedPlan allocate_shared_memory(llvm::Function& function, llvm::Instruction* part, int consumer_groups) {
  SharedPlan plan;
  const std::map<int, Call> calls = find_calls(function);
  if (calls.empty()) return plan;
  std::map<int, Buffers> neighbours = find_neighbours(function);
  keep_small_apart(calls, neighbours);
  std::vector<int> of_block, of_program;
  for (const auto& [number, call] : calls) {
    (consumer_groups > 1 && call.instruction->hasMetadata(kOfBlock) ? of_block : of_program).push_back(number);
  }
  std::map<int, SharedRange> placed;
  const int64_t first = round_up(place(of_block, calls, neighbours, 0, placed), kMostAlignment);
  plan.bytes = place(of_program, calls, neighbours, first, placed);
  llvm::Value* const memory = shared_memory(*function.getParent());
  llvm::Value* own = memory;
  if (part) {
    plan.bytes = round_up(plan.bytes, consumer_groups > 1 ? kMostAlignment : kLeastAlignment);
    const auto stride = static_cast<uint32_t>(plan.bytes - first);
    llvm::IRBuilder<> ir(part->getNextNode());
    own = ir.CreateGEP(ir.getInt8Ty(), memory, ir.CreateMul(part, ir.getInt32(stride)));
    plan.bytes += stride * (consumer_groups - 1);
  }
  plan.buffers.resize(static_cast<size_t>(calls.rbegin()->first) + 1);
  for (const auto& [number, call] : calls) {
    plan.buffers[static_cast<size_t>(number)] = placed[number];
    llvm::IRBuilder<> ir(call.instruction);
    const bool is_of_block = consumer_groups > 1 && call.instruction->hasMetadata(kOfBlock);
    call.instruction->replaceAllUsesWith(ir.CreateConstGEP1_64(ir.getInt8Ty(), is_of_block ? memory : own,
                                                               static_cast<uint64_t>(placed[number].offset)));
    call.instruction->eraseFromParent();
  }
  function.getParent()->getFunction(kBufferFunction)->eraseFromParent();
  return plan;
}

}  // namespace kiln::codegen::gpu
