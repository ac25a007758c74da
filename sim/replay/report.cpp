#include "sim/replay/report.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

namespace ebb::sim {
namespace {
constexpr const char* kChartScript = "/usr/share/javascript/chart.js/chart.min.js";
constexpr std::size_t kPointsMax = 1'500;
constexpr double kMsPerHour = 3'600'000;

/// Jobs by completion time in powers of two of a minute.
Json histogram(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  std::map<int, std::size_t> counts;
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    if (outcome.jobs[i].ended_ms < 0) continue;
    const double minutes =
        static_cast<double>(outcome.jobs[i].ended_ms - plan.jobs[i].submit_ms) / 60'000;
    ++counts[std::max(0, static_cast<int>(std::ceil(std::log2(std::max(1.0, minutes)))))];
  }
  Json out = Json::array();
  for (const auto& [power, count] : counts) {
    out.push_back({{"minutes_up_to", std::llround(std::pow(2, power))}, {"jobs", count}});
  }
  return out;
}
}  // namespace

Json report_json(const ReplayPlan& plan, const ReplayOutcome& outcome, const Json& summary) {
  std::set<std::string> quotas;
  for (const Sample& sample : outcome.samples) {
    for (const auto& [quota, gpus] : sample.in_quota) quotas.insert(quota);
  }
  const std::size_t every = outcome.samples.size() / kPointsMax + 1;
  Json hours = Json::array(), idle = Json::array(), serving = Json::array(), demand = Json::array(),
       waiting = Json::array(), by_quota = Json::object();
  for (std::size_t i = 0; i < outcome.samples.size(); i += every) {
    const Sample& sample = outcome.samples[i];
    hours.push_back(static_cast<double>(sample.at_ms) / kMsPerHour);
    idle.push_back(sample.idle);
    serving.push_back(sample.serving);
    demand.push_back(sample.demand);
    waiting.push_back(sample.waiting);
    for (const std::string& quota : quotas) {
      const auto found = sample.in_quota.find(quota);
      by_quota[quota].push_back(found == sample.in_quota.end() ? 0 : found->second);
    }
  }
  return {{"id", plan.cluster.id},     {"capacity_gpus", outcome.capacity_gpus},
          {"summary", summary},        {"hours", hours},
          {"in_quota_gpus", by_quota}, {"idle_gpus", idle},
          {"serving_gpus", serving},   {"demand_gpus", demand},
          {"waiting_jobs", waiting},   {"jct", histogram(plan, outcome)}};
}

Result<Ok> write_html(const std::string& path, const ReplayPlan& plan, const ReplayOutcome& outcome,
                      const Json& summary) {
  std::ifstream script(kChartScript);
  if (!script) {
    return Refusal{
        "MissingLibrary",
        std::string("--html: ") + kChartScript + " is missing; install the package libjs-chart.js",
        500};
  }
  std::ostringstream library;
  library << script.rdbuf();
  std::string data = report_json(plan, outcome, summary).dump();
  // Inside a script element nothing may look like its end.
  for (std::size_t at = 0; (at = data.find("</", at)) != std::string::npos; at += 3) {
    data.replace(at, 2, "<\\/");
  }
  std::ofstream page(path);
  page << R"(<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Ebb replay</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
h2{margin:2rem 0 .5rem;font-size:1.1rem}table{border-collapse:collapse}td{padding:.15rem 1.5rem .15rem 0}
td+td{text-align:right;font-variant-numeric:tabular-nums}</style></head><body><h1 id="title"></h1>
<table id="summary"></table><h2>GPUs held</h2><canvas id="gpus"></canvas>
<h2>Jobs waiting</h2><canvas id="queue"></canvas><h2>Jobs by completion time</h2><canvas id="jct"></canvas>
<script>)"
       << library.str() << "</script><script>const data=" << data << R"(;
document.getElementById('title').textContent='Replay: '+data.id;
const table=document.getElementById('summary');
for(const [name,value] of Object.entries(data.summary)){if(typeof value==='object'||name==='hash')continue;
 const row=table.insertRow();row.insertCell().textContent=name.replaceAll('_',' ');
 row.insertCell().textContent=Number.isInteger(value)?value:value.toPrecision(5);}
const hues=[210,160,30,280,60,120,190,330,90,250,10];let n=0;
const area=(label,values)=>({label,data:values,fill:true,stepped:true,pointRadius:0,borderWidth:1,
 backgroundColor:`hsl(${hues[n%11]} 55% 70%)`,borderColor:`hsl(${hues[n++%11]} 55% 45%)`});
const sets=[];if(data.serving_gpus.some(x=>x))sets.push(area('services',data.serving_gpus));
for(const [quota,values] of Object.entries(data.in_quota_gpus))sets.push(area('quota '+quota,values));
sets.push({...area('idle',data.idle_gpus),backgroundColor:'#ddd',borderColor:'#999'});
const x={type:'linear',title:{display:true,text:'hours'}};
new Chart('gpus',{type:'line',data:{labels:data.hours,datasets:sets},
 options:{animation:false,scales:{x,y:{stacked:true,max:data.capacity_gpus}}}});
new Chart('queue',{type:'line',data:{labels:data.hours,datasets:[area('waiting',data.waiting_jobs)]},
 options:{animation:false,scales:{x,y:{beginAtZero:true}},plugins:{legend:{display:false}}}});
new Chart('jct',{type:'bar',data:{labels:data.jct.map(b=>'≤ '+b.minutes_up_to+' min'),
 datasets:[{label:'jobs',data:data.jct.map(b=>b.jobs),backgroundColor:'hsl(210 55% 60%)'}]},
 options:{animation:false,plugins:{legend:{display:false}}}});
</script></body></html>
)";
  if (!page.flush()) return Refusal{"CannotWrite", "--html: " + path + " cannot be written", 500};
  return Ok{};
}

}  // namespace ebb::sim
