// Jobs files: what a line means, what is wrong with one, and that those of the project are valid.
#include "kiln/autotune/jobs.h"

#include <gmock/gmock.h>

#include <set>

#include "batch_helpers.h"
#include "kiln/autotune/space.h"

namespace kiln::autotune {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names(const std::vector<JobSpec>& jobs) {
  std::vector<std::string> out;
  for (const JobSpec& job : jobs) out.push_back(job.name);
  return out;
}

std::string problem(const std::string& line, const std::string& file = "jobs.jsonl") {
  const auto jobs = parse_jobs("\n" + line + "\n", file);
  EXPECT_FALSE(jobs) << line;
  return jobs ? "" : jobs.error().message;
}

TEST(Jobs, OneLineIsAJobForEachShapeAndTarget) {
  const auto jobs = expect_ok(parse_jobs(R"({"kernel":"matmul","type":"bf16","shapes":[{"M":64,"N":32,"K":16},)"
                                         R"({"M":128,"N":32,"K":16}],"targets":["cpu","cuda"]})",
                                         "a/jobs.jsonl"));
  EXPECT_THAT(names(jobs), ::testing::ElementsAre("matmul bf16 M=64,N=32,K=16", "matmul bf16 M=64,N=32,K=16",
                                                  "matmul bf16 M=128,N=32,K=16", "matmul bf16 M=128,N=32,K=16"));
  EXPECT_EQ(jobs[0].target, "cpu");
  EXPECT_EQ(jobs[1].target, "cuda");
  EXPECT_EQ(jobs[0].place, "a/jobs.jsonl:1");
  EXPECT_EQ(jobs[0].workload.arguments[0].elements, 64 * 16);
  EXPECT_EQ(jobs[0].kernel.params[0].type.element, dsl::ElementType::kBF16);
}

TEST(Jobs, TakeNamesConstexprsSpacesAndArrays) {
  const auto jobs = expect_ok(parse_jobs(
      R"({"kernel":"rotary","name":"rope","shape":{"tokens":8,"heads":4},"set":{"D":64},"space":{"BH":[4,2,4]},)"
      R"("arrays":{"cosine":100}})",
      "jobs.jsonl"));
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].name, "rope");
  EXPECT_EQ(jobs[0].target, "");
  EXPECT_EQ(jobs[0].workload.fixed, (dsl::ConstexprValues{{"D", 64}}));
  EXPECT_EQ(jobs[0].workload.arguments[0].elements, 64 * 8 * 4);
  EXPECT_EQ(jobs[0].workload.arguments[1].elements, 100);
  ASSERT_EQ(jobs[0].axes.size(), 1u);
  EXPECT_EQ(jobs[0].axes[0].name, "BH");
  EXPECT_EQ(jobs[0].axes[0].values, (std::vector<int64_t>{2, 4}));
}

TEST(Jobs, FindKernelFilesBesideTheirs) {
  ScratchDirectory directory;
  std::filesystem::create_directory(directory.file("kernels"));
  std::filesystem::copy(std::string(KILN_SOURCE_DIR) + "/dsl/examples/row_sum.kiln",
                        directory.file("kernels/sum.kiln"));
  write_text(directory.file("jobs.jsonl"), R"({"kernel":"kernels/sum.kiln","shape":{"rows":8,"cols":16,"stride":16}})");
  const auto jobs = expect_ok(read_jobs(directory.file("jobs.jsonl")));
  EXPECT_THAT(names(jobs), ::testing::ElementsAre("row_sum rows=8,cols=16,stride=16"));
  EXPECT_THAT(problem(R"({"kernel":"none.kiln"})", directory.file("jobs.jsonl")),
              HasSubstr("jobs.jsonl:2: `kernel`: " + directory.file("none.kiln") + ": cannot be opened"));
}

TEST(Jobs, NameLineAndFieldOfWhatIsWrong) {
  EXPECT_EQ(problem("{"), "jobs.jsonl:2: not a JSON object");
  EXPECT_EQ(problem("[]"), "jobs.jsonl:2: not a JSON object");
  EXPECT_EQ(problem(R"({"kernel":"gelu","shpae":{}})"), "jobs.jsonl:2: `shpae`: there is no such field");
  EXPECT_THAT(problem(R"({"shape":{}})"), HasSubstr("jobs.jsonl:2: `kernel`: is missing"));
  EXPECT_THAT(problem(R"({"kernel":5})"), HasSubstr("`kernel`: must be a text"));
  EXPECT_THAT(problem(R"({"kernel":"gelo"})"), HasSubstr("`kernel`: the library has no kernel `gelo`; it has adamw, "));
  EXPECT_THAT(problem(R"({"kernel":"gelu","type":"i8"})"),
              HasSubstr("`type`: the library has no `gelu` of `i8`; it has those of f32, bf16, f16"));
  EXPECT_THAT(problem(R"({"kernel":"a.kiln","type":"i8"})"), HasSubstr("`type`: a kernel file has the types"));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shape":{}})"), HasSubstr("jobs.jsonl:2: `shape`: "));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shapes":[{"n":8},{"m":8}]})"), HasSubstr("`shapes[1]`: "));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shapes":[{"n":8},7]})"), HasSubstr("`shapes[1]`: must be an object"));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shapes":[]})"), HasSubstr("`shapes`: must be a list that is not empty"));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shape":{"n":8},"shapes":[{"n":8}]})"),
              HasSubstr("`shapes`: stands beside `shape`"));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shape":{"n":8},"set":{"D":1}})"),
              HasSubstr("`set`: kernel `gelu` has no constexpr `D`; it has BLOCK, "));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shape":{"n":8},"set":{"BLOCK":"x"}})"),
              HasSubstr("`set`: `BLOCK` must be an integer"));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shape":{"n":8},"space":{"BLOCK":[1.5]}})"),
              HasSubstr("`space`: `BLOCK` must be a list of integers"));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shape":{"n":8},"space":{"BLOCK":[]}})"),
              HasSubstr("`space`: `BLOCK` must be a list of integers"));
  EXPECT_THAT(problem(R"({"kernel":"gelu","shape":{"n":8},"targets":["cpu",4]})"),
              HasSubstr("`targets[1]`: must be a text"));
}

TEST(LibraryKernels, AreTracedWithoutErrorForEveryTypeThatIsListed) {
  for (const char* name : {"adamw",
                           "append_pages",
                           "append_pages_quantised",
                           "argmax",
                           "attention",
                           "attention_backward_keys",
                           "attention_backward_queries",
                           "attention_combine",
                           "attention_decode",
                           "attention_delta",
                           "attention_f8",
                           "attention_with_lse",
                           "batched_matmul",
                           "bias_gelu",
                           "class_balanced_sampler",
                           "column_sum",
                           "conv2d",
                           "conv2d_bias_relu",
                           "conv2d_bias_residual_relu",
                           "conv2d_depthwise",
                           "conv2d_grouped",
                           "conv2d_narrow",
                           "conv2d_packed",
                           "cross_entropy",
                           "cross_entropy_backward",
                           "cumsum_columns",
                           "cumsum_rows",
                           "dlrm_interaction",
                           "dropout",
                           "embedding",
                           "embedding_backward",
                           "embedding_backward_ordered",
                           "gelu",
                           "grouped_matmul",
                           "grouped_matmul_nt",
                           "grouped_matmul_tn",
                           "layer_norm",
                           "layer_norm_backward",
                           "layer_norm_long",
                           "layer_norm_narrow",
                           "log_softmax",
                           "matmul",
                           "matmul_bias_act",
                           "matmul_bias_act_packed",
                           "matmul_bias_relu",
                           "matmul_bias_residual",
                           "matmul_f8",
                           "matmul_geglu",
                           "matmul_nt",
                           "matmul_packed",
                           "matmul_quantise",
                           "matmul_strided",
                           "matmul_swiglu",
                           "matmul_tn",
                           "matmul_w4",
                           "matmul_w8",
                           "max_pool2d",
                           "max_pool2d_backward",
                           "mlp_softshrink",
                           "pack_weights",
                           "residual_layer_norm",
                           "residual_rms_norm",
                           "rms_norm",
                           "rms_norm_narrow",
                           "roi_align",
                           "roi_align_backward",
                           "rotary",
                           "row_sum",
                           "selective_scan",
                           "selective_scan_backward",
                           "sin2_cos2",
                           "softmax",
                           "softmax_long",
                           "softmax_narrow",
                           "sort_rows",
                           "topk",
                           "transpose",
                           "vector_add"}) {
    for (const char* type : {"", "f32", "bf16", "f16"}) {
      const auto kernel = library_kernel(name, type);
      EXPECT_TRUE(kernel) << name << " " << type << ": " << kernel.error().message;
    }
  }
  for (const char* type : {"i8", "f8e4m3", "f8e5m2"}) {
    for (const char* name : {"matmul", "matmul_nt", "matmul_strided", "matmul_tn"}) {
      EXPECT_TRUE(library_kernel(name, type)) << name << " " << type;
    }
  }
  EXPECT_TRUE(library_kernel("cross_entropy_mean", ""));
  EXPECT_TRUE(library_kernel("histogram", ""));
}

// The job lists of the project. Listing a space takes a while, so that only the first shape of a kernel has it done.
TEST(JobLists, HaveWorkloadsAndValidConfigs) {
  size_t lists = 0;
  std::set<std::string> listed;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(KILN_SOURCE_DIR) + "/autotune/jobs")) {
    if (entry.path().extension() != ".jsonl") continue;
    ++lists;
    const auto jobs = expect_ok(read_jobs(entry.path()));
    EXPECT_GE(jobs.size(), 1u) << entry.path();
    for (const JobSpec& job : jobs) {
      if (!listed.insert(job.kernel.name).second) continue;
      for (const char* target : {"cpu", "cuda:sm_90a"}) {
        const auto space = space_for(job.kernel, target, job.axes);
        ASSERT_TRUE(space) << job.place << " " << job.name << ": " << space.error().message;
        const auto configs = enumerate(job.kernel, target, *space, job.workload);
        EXPECT_TRUE(configs) << job.place << " " << job.name << ": " << configs.error().message;
      }
    }
  }
  EXPECT_GE(lists, 4u);
}

}  // namespace
}  // namespace kiln::autotune
