// Graphs of many nodes, and deep ones: no walk over them may need stack for their depth, nor time for their square.
#include <gtest/gtest.h>
#include <pthread.h>

#include "kiln/graph/verify.h"
#include "trace/lines.h"

namespace kiln::graph {
namespace {

// Runs it on a thread with a stack of 128 KiB.
void on_a_small_stack(void (*work)()) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{128} << 10);
  pthread_t thread;
  const auto start = [](void* function) -> void* {
    reinterpret_cast<void (*)()>(function)();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, reinterpret_cast<void*>(work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Growth, ADeepChain) {
  on_a_small_stack([] {
    constexpr int kDepth = 100'000;
    const auto def = graph("g", {input("x", f32, {dim("n"), 4})}, [](Tensor x) {
      Tensor y = x;
      for (int i = 0; i < kDepth; ++i) y = i % 2 == 0 ? tanh(y) : y * x;
      return y;
    });
    ASSERT_EQ(error_text(def), "");
    EXPECT_EQ(def.ir()->main().nodes.size(), size_t{kDepth});
    EXPECT_TRUE(verify(*def.ir()).ok());
  });
}

TEST(Growth, ManyBodiesAndCaptures) {
  const auto def = graph("g", {input("p", i1, {}), input("x", f32, {4})}, [](Tensor p, Tensor x) {
    std::vector<Tensor> parts;
    for (int i = 0; i < 2000; ++i) parts.push_back(x * i);
    Tensor y = x;
    for (int i = 0; i < 2000; ++i) y = cond(p, [&] { return y; }, [&] { return y * 2; });
    // Each of them an operand, of the second branch alone.
    const Tensor all = cond(
        p, [&] { return x; },
        [&] {
          Tensor sum = x;
          for (const Tensor& part : parts) sum = sum + part;
          return sum;
        });
    return y + all;
  });
  ASSERT_EQ(error_text(def), "");
  EXPECT_EQ(def.ir()->bodies.size(), 1u + 2 * 2001);
  EXPECT_TRUE(verify(*def.ir()).ok());
}

}  // namespace
}  // namespace kiln::graph
