// Manages machines of a service with Azure's SDK for JavaScript. The argument is the step; the address
// and the login come from the environment, and the result is printed as JSON.
import { createRequire } from "node:module";

const packages = createRequire(`${process.env.PACKAGES}/`);
const { ClientSecretCredential } = packages("@azure/identity");
const { ComputeManagementClient } = packages("@azure/arm-compute");
const { ResourceManagementClient } = packages("@azure/arm-resources");

const group = "rg";
const location = "westus";
const arm = process.env.ARM_ENDPOINT;
const { AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, AZURE_SUBSCRIPTION_ID } = process.env;
const credential = new ClientSecretCredential(AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET, {
  authorityHost: arm,
  disableInstanceDiscovery: true,
});
const options = { endpoint: arm, credentialScopes: `${arm}/.default` };
const compute = new ComputeManagementClient(credential, AZURE_SUBSCRIPTION_ID, options);
const resources = new ResourceManagementClient(credential, AZURE_SUBSCRIPTION_ID, options);
const waiting = { updateIntervalInMs: 100 };

const set = {
  location,
  sku: { name: "Standard_B1s", capacity: 2 },
  orchestrationMode: "Uniform",
  upgradePolicy: { mode: "Manual" },
  virtualMachineProfile: {
    scheduledEventsProfile: { terminateNotificationProfile: { enable: true, notBeforeTimeout: "PT5M" } },
  },
};

async function collected(pages) {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
}

const steps = {
  async create() {
    await resources.resourceGroups.createOrUpdate(group, { location });
    const machine = { location, tags: { tier: "front" }, hardwareProfile: { vmSize: "Standard_B1s" } };
    await compute.virtualMachines.beginCreateOrUpdateAndWait(group, "vm", machine, waiting);
    await compute.virtualMachineScaleSets.beginCreateOrUpdateAndWait(group, "web", set, waiting);
  },
  async restart() {
    await compute.virtualMachines.beginRestartAndWait(group, "vm", waiting);
  },
  async "scale-in"() {
    const ids = { instanceIds: ["1"] };
    await compute.virtualMachineScaleSets.beginDeleteInstancesAndWait(group, "web", ids, waiting);
  },
  async list() {
    const machines = await collected(compute.virtualMachines.listAll());
    const sets = await collected(compute.virtualMachineScaleSets.listAll());
    const view = await compute.virtualMachines.instanceView(group, "vm");
    return {
      machines: machines.map(({ name, tags }) => ({ name, tags })),
      sets: sets.map(({ name, sku }) => ({ name, capacity: sku.capacity })),
      statuses: view.statuses.map(({ code }) => code),
    };
  },
  async delete() {
    await resources.resourceGroups.beginDeleteAndWait(group, waiting);
  },
};

const result = await steps[process.argv[2]]();
console.log(JSON.stringify(result ?? null));
