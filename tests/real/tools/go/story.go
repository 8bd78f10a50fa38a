// Manages machines of a service with Azure's SDK for Go. The first argument is the step; the address
// and the login come from the environment, and the result is printed as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/Azure/azure-sdk-for-go/services/compute/mgmt/2022-08-01/compute"
	"github.com/Azure/azure-sdk-for-go/services/network/mgmt/2022-07-01/network"
	"github.com/Azure/azure-sdk-for-go/services/resources/mgmt/2021-04-01/resources"
	"github.com/Azure/go-autorest/autorest"
	"github.com/Azure/go-autorest/autorest/adal"
	"github.com/Azure/go-autorest/autorest/azure"
	"github.com/Azure/go-autorest/autorest/to"
)

const (
	group    = "rg"
	location = "westus"
)

// clients are those of one service, with the same login.
type clients struct {
	groups   resources.GroupsClient
	networks network.VirtualNetworksClient
	nics     network.InterfacesClient
	machines compute.VirtualMachinesClient
	sets     compute.VirtualMachineScaleSetsClient
	members  compute.VirtualMachineScaleSetVMsClient
}

// logIn asks the service for its endpoints and exchanges the client secret for tokens.
func logIn(arm string) (autorest.Authorizer, error) {
	environment, err := azure.EnvironmentFromURL(arm)
	if err != nil {
		return nil, err
	}
	authority, err := adal.NewOAuthConfig(environment.ActiveDirectoryEndpoint, os.Getenv("AZURE_TENANT_ID"))
	if err != nil {
		return nil, err
	}
	token, err := adal.NewServicePrincipalToken(
		*authority, os.Getenv("AZURE_CLIENT_ID"), os.Getenv("AZURE_CLIENT_SECRET"), environment.TokenAudience)
	if err != nil {
		return nil, err
	}
	return autorest.NewBearerAuthorizer(token), nil
}

func newClients(arm, subscription string, authorizer autorest.Authorizer) *clients {
	c := &clients{
		groups:   resources.NewGroupsClientWithBaseURI(arm, subscription),
		networks: network.NewVirtualNetworksClientWithBaseURI(arm, subscription),
		nics:     network.NewInterfacesClientWithBaseURI(arm, subscription),
		machines: compute.NewVirtualMachinesClientWithBaseURI(arm, subscription),
		sets:     compute.NewVirtualMachineScaleSetsClientWithBaseURI(arm, subscription),
		members:  compute.NewVirtualMachineScaleSetVMsClientWithBaseURI(arm, subscription),
	}
	for _, client := range []*autorest.Client{
		&c.groups.Client, &c.networks.Client, &c.nics.Client, &c.machines.Client, &c.sets.Client, &c.members.Client,
	} {
		client.Authorizer = authorizer
		client.PollingDelay = 100e6 // a tenth of a second; the service says how long if it knows
	}
	return c
}

// waiting is what every long-running operation of the SDK has.
type waiting interface {
	WaitForCompletionRef(context.Context, autorest.Client) error
}

func wait(ctx context.Context, future waiting, client autorest.Client, err error) error {
	if err != nil {
		return err
	}
	return future.WaitForCompletionRef(ctx, client)
}

func main() {
	log.SetFlags(0)
	arm := os.Getenv("ARM_ENDPOINT")
	authorizer, err := logIn(arm)
	if err != nil {
		log.Fatalf("log in: %v", err)
	}
	c := newClients(arm, os.Getenv("AZURE_SUBSCRIPTION_ID"), authorizer)
	steps := map[string]func(context.Context) (interface{}, error){
		"create":   c.create,
		"restart":  c.restart,
		"scale-in": c.scaleIn,
		"list":     c.list,
		"delete":   c.delete,
	}
	step, known := steps[os.Args[1]]
	if !known {
		log.Fatalf("no step %q", os.Args[1])
	}
	result, err := step(context.Background())
	if err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

// create makes a machine with a network interface, and a set with notice of deletes.
func (c *clients) create(ctx context.Context) (interface{}, error) {
	if _, err := c.groups.CreateOrUpdate(ctx, group, resources.Group{Location: to.StringPtr(location)}); err != nil {
		return nil, err
	}
	subnet, err := c.createSubnet(ctx)
	if err != nil {
		return nil, err
	}
	nic, err := c.createInterface(ctx, subnet)
	if err != nil {
		return nil, err
	}
	machine, err := c.machines.CreateOrUpdate(ctx, group, "vm", machineModel(nic))
	if err := wait(ctx, &machine, c.machines.Client, err); err != nil {
		return nil, err
	}
	set, err := c.sets.CreateOrUpdate(ctx, group, "web", setModel(subnet))
	return nil, wait(ctx, &set, c.sets.Client, err)
}

func (c *clients) createSubnet(ctx context.Context) (string, error) {
	future, err := c.networks.CreateOrUpdate(ctx, group, "net", network.VirtualNetwork{
		Location: to.StringPtr(location),
		VirtualNetworkPropertiesFormat: &network.VirtualNetworkPropertiesFormat{
			AddressSpace: &network.AddressSpace{AddressPrefixes: &[]string{"10.0.0.0/16"}},
			Subnets: &[]network.Subnet{{
				Name:                   to.StringPtr("default"),
				SubnetPropertiesFormat: &network.SubnetPropertiesFormat{AddressPrefix: to.StringPtr("10.0.0.0/24")},
			}},
		},
	})
	if err := wait(ctx, &future, c.networks.Client, err); err != nil {
		return "", err
	}
	made, err := future.Result(c.networks)
	if err != nil {
		return "", err
	}
	return *(*made.Subnets)[0].ID, nil
}

func (c *clients) createInterface(ctx context.Context, subnet string) (string, error) {
	future, err := c.nics.CreateOrUpdate(ctx, group, "nic", network.Interface{
		Location: to.StringPtr(location),
		InterfacePropertiesFormat: &network.InterfacePropertiesFormat{
			IPConfigurations: &[]network.InterfaceIPConfiguration{{
				Name: to.StringPtr("primary"),
				InterfaceIPConfigurationPropertiesFormat: &network.InterfaceIPConfigurationPropertiesFormat{
					Subnet: &network.Subnet{ID: to.StringPtr(subnet)},
				},
			}},
		},
	})
	if err := wait(ctx, &future, c.nics.Client, err); err != nil {
		return "", err
	}
	made, err := future.Result(c.nics)
	if err != nil {
		return "", err
	}
	return *made.ID, nil
}

// restart waits until the machine has restarted, after its notice.
func (c *clients) restart(ctx context.Context) (interface{}, error) {
	future, err := c.machines.Restart(ctx, group, "vm")
	return nil, wait(ctx, &future, c.machines.Client, err)
}

// scaleIn deletes the newest instance, and waits until it is gone.
func (c *clients) scaleIn(ctx context.Context) (interface{}, error) {
	future, err := c.sets.DeleteInstances(ctx, group, "web",
		compute.VirtualMachineScaleSetVMInstanceRequiredIDs{InstanceIds: &[]string{"1"}}, nil)
	return nil, wait(ctx, &future, c.sets.Client, err)
}

// list reads everything back, with the SDK's types.
func (c *clients) list(ctx context.Context) (interface{}, error) {
	result := map[string]interface{}{}
	for page, err := c.sets.ListAll(ctx); ; err = page.NextWithContext(ctx) {
		if err != nil {
			return nil, err
		}
		if !page.NotDone() {
			break
		}
		for _, set := range page.Values() {
			result[*set.Name] = *set.Sku.Capacity
		}
	}
	for page, err := c.machines.ListAll(ctx, "", ""); ; err = page.NextWithContext(ctx) {
		if err != nil {
			return nil, err
		}
		if !page.NotDone() {
			break
		}
		for _, machine := range page.Values() {
			result[*machine.Name] = *machine.ProvisioningState
		}
	}
	nic, err := c.nics.Get(ctx, group, "nic", "")
	if err != nil {
		return nil, err
	}
	result["address"] = (*nic.IPConfigurations)[0].PrivateIPAddress
	if nic.VirtualMachine != nil {
		result["nic of"] = nic.VirtualMachine.ID
	}
	return result, nil
}

// delete removes the group with everything in it.
func (c *clients) delete(ctx context.Context) (interface{}, error) {
	future, err := c.groups.Delete(ctx, group, "")
	return nil, wait(ctx, &future, c.groups.Client, err)
}
