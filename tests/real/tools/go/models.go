package main

import (
	"github.com/Azure/azure-sdk-for-go/services/compute/mgmt/2022-08-01/compute"
	"github.com/Azure/go-autorest/autorest/to"
)

func image() *compute.ImageReference {
	return &compute.ImageReference{
		Publisher: to.StringPtr("Debian"), Offer: to.StringPtr("debian-12"), Sku: to.StringPtr("12"), Version: to.StringPtr("latest"),
	}
}

func machineModel(nic string) compute.VirtualMachine {
	return compute.VirtualMachine{
		Location: to.StringPtr(location),
		VirtualMachineProperties: &compute.VirtualMachineProperties{
			HardwareProfile: &compute.HardwareProfile{VMSize: compute.StandardB1s},
			StorageProfile: &compute.StorageProfile{
				ImageReference: image(),
				OsDisk:         &compute.OSDisk{CreateOption: compute.DiskCreateOptionTypesFromImage, DiskSizeGB: to.Int32Ptr(30)},
			},
			OsProfile: &compute.OSProfile{
				ComputerName: to.StringPtr("vm"), AdminUsername: to.StringPtr("azureuser"), AdminPassword: to.StringPtr("Not-a-secret-1"),
				LinuxConfiguration: &compute.LinuxConfiguration{DisablePasswordAuthentication: to.BoolPtr(false)},
			},
			NetworkProfile: &compute.NetworkProfile{
				NetworkInterfaces: &[]compute.NetworkInterfaceReference{{ID: to.StringPtr(nic)}},
			},
		},
	}
}

func setModel(subnet string) compute.VirtualMachineScaleSet {
	return compute.VirtualMachineScaleSet{
		Location: to.StringPtr(location),
		Sku:      &compute.Sku{Name: to.StringPtr("Standard_B1s"), Capacity: to.Int64Ptr(2)},
		VirtualMachineScaleSetProperties: &compute.VirtualMachineScaleSetProperties{
			UpgradePolicy: &compute.UpgradePolicy{Mode: compute.UpgradeModeManual},
			Overprovision: to.BoolPtr(false),
			VirtualMachineProfile: &compute.VirtualMachineScaleSetVMProfile{
				OsProfile: &compute.VirtualMachineScaleSetOSProfile{
					ComputerNamePrefix: to.StringPtr("web"), AdminUsername: to.StringPtr("azureuser"), AdminPassword: to.StringPtr("Not-a-secret-1"),
				},
				StorageProfile: &compute.VirtualMachineScaleSetStorageProfile{
					ImageReference: image(),
					OsDisk:         &compute.VirtualMachineScaleSetOSDisk{CreateOption: compute.DiskCreateOptionTypesFromImage},
				},
				NetworkProfile:         setNetwork(subnet),
				ScheduledEventsProfile: noticeOfDeletes(),
			},
		},
	}
}

func setNetwork(subnet string) *compute.VirtualMachineScaleSetNetworkProfile {
	return &compute.VirtualMachineScaleSetNetworkProfile{
		NetworkInterfaceConfigurations: &[]compute.VirtualMachineScaleSetNetworkConfiguration{{
			Name: to.StringPtr("nic"),
			VirtualMachineScaleSetNetworkConfigurationProperties: &compute.VirtualMachineScaleSetNetworkConfigurationProperties{
				Primary: to.BoolPtr(true),
				IPConfigurations: &[]compute.VirtualMachineScaleSetIPConfiguration{{
					Name: to.StringPtr("primary"),
					VirtualMachineScaleSetIPConfigurationProperties: &compute.VirtualMachineScaleSetIPConfigurationProperties{
						Subnet: &compute.APIEntityReference{ID: to.StringPtr(subnet)},
					},
				}},
			},
		}},
	}
}

func noticeOfDeletes() *compute.ScheduledEventsProfile {
	return &compute.ScheduledEventsProfile{
		TerminateNotificationProfile: &compute.TerminateNotificationProfile{
			Enable: to.BoolPtr(true), NotBeforeTimeout: to.StringPtr("PT5M"),
		},
	}
}
